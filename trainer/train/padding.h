#pragma once

#include <vector>

#include "trainer/backend/backend.h"
#include "trainer/train/buckets.h"

namespace coxswain::train {

// Where the flat buffer is no tensor's: between them, and in the device's inner orders. It is zero,
// and stays so as long as its gradients are.
std::vector<Range> padding_of(backend::Backend& backend, const tensor::ParameterLayout& layout);

}  // namespace coxswain::train
