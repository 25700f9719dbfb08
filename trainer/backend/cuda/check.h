#pragma once

#include <cuda_runtime.h>

namespace coxswain::backend::cuda {

// Throws Error, with CUDA's own words, when a call failed: 72 where the device is at fault,
// else 70. `what` says what was wanted: "starting the kernel relu".
void check(cudaError_t result, const char* what);

}  // namespace coxswain::backend::cuda
