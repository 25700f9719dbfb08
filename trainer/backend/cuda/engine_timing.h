#pragma once

#include "trainer/backend/algorithms.h"
#include "trainer/backend/cuda/products.h"
#include "trainer/graph/program.h"

namespace coxswain::backend::cuda {

// Times on the device what each convolution of the program may be computed with, those of one shape
// once: own choices first, then the next guess for each, at most kMostEngines in all, for as long
// as keep_on() says. Those of which there was no time for two are not named.
constexpr int kMostEngines = 8;
AlgorithmTimes time_engines(const graph::Program& training, Products& products, const Queue& queue,
                            const KeepOn& keep_on);

}  // namespace coxswain::backend::cuda
