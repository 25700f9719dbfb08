#include "trainer/backend/cuda/check.h"

#include <fmt/format.h>

#include "trainer/contract/error.h"

namespace coxswain::backend::cuda {

void check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  throw Error(ExitCode::kInternal,
              fmt::format("[cuda] {}: {} ({})", what, cudaGetErrorString(result),
                          cudaGetErrorName(result)));
}

}  // namespace coxswain::backend::cuda
