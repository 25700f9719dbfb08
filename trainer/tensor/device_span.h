#pragma once

#include "trainer/tensor/slice.h"

namespace coxswain::tensor {

// The floats of a slice of a device's memory, for who enqueues work on it: a host can't read them.
// Throws Error (70) for the host's.
std::span<float> device_span(const Slice& slice);

}  // namespace coxswain::tensor
