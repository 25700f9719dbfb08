#pragma once

#include "trainer/tensor/slice.h"

namespace coxswain::tensor {

// The floats of a slice of host memory, the one way to them. Throws Error (70) for a device's.
std::span<float> host_span(const Slice& slice);

}  // namespace coxswain::tensor
