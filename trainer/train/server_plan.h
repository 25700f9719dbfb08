#pragma once

#include "trainer/backend/parameters.h"
#include "trainer/ps/client.h"
#include "trainer/train/buckets.h"

namespace coxswain::train {

// How a model's parameters are dealt to the servers. Throws Error (65) for more servers than it can
// be cut for.
ps::Plan plan_for(const backend::Parameters& parameters, int servers);

// As servers take them.
std::vector<Range> blocks_of(const ps::Plan& plan);

// Throws Error (70) when they are not in the host's memory.
ps::WorkerArrays arrays_of(const backend::Parameters& parameters);

}  // namespace coxswain::train
