#pragma once

#include <vector>

#include "trainer/backend/backend.h"
#include "trainer/train/buckets.h"

namespace coxswain::train {

// Where the device's inner orders leave room that is no tensor's. It is zero, and stays so as long
// as its gradients are.
std::vector<Range> padding_of(backend::Backend& backend, const tensor::ParameterLayout& layout);

}  // namespace coxswain::train
