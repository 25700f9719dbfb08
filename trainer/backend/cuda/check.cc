#include "trainer/backend/cuda/check.h"

#include <fmt/format.h>

#include "trainer/contract/error.h"

namespace coxswain::backend::cuda {

namespace {

// After one of these the device does nothing more for this process: an Xid, in the driver's log.
bool is_of_the_device(cudaError_t result) {
  switch (result) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorDevicesUnavailable:
    case cudaErrorSystemNotReady:
      return true;
    default:
      return false;
  }
}

}  // namespace

void check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  throw Error(is_of_the_device(result) ? ExitCode::kDevice : ExitCode::kInternal,
              fmt::format("[cuda] {}: {} ({})", what, cudaGetErrorString(result),
                          cudaGetErrorName(result)));
}

}  // namespace coxswain::backend::cuda
