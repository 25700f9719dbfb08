#include "trainer/comm/nccl/nccl_handle.h"

#include <fmt/format.h>

#include <thread>
#include <utility>

#include "trainer/contract/error.h"

namespace coxswain::comm {

void check_nccl(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) return;
  throw Error(ExitCode::kPeerLost,
              fmt::format("[nccl] {}: {}: NCCL_DEBUG=WARN in the job's environment says more", what,
                          ncclGetErrorString(result)));
}

void NcclHandle::call(const char* what, const std::function<void(ncclComm_t& comm)>& call) {
  ncclComm_t comm = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (aborts_) {
      throw Error(ExitCode::kPeerLost,
                  fmt::format("[nccl] {}: the sums between GPUs have been ended", what));
    }
    comm = comm_;
    calling_since_ = std::chrono::steady_clock::now();
    doing_ = what;
  }
  const auto over = [&] {
    const std::lock_guard lock(mutex_);
    calling_since_.reset();
    if (!aborts_) comm_ = comm;
    changed_.notify_all();
  };
  try {
    call(comm);
  } catch (...) {
    over();
    throw;
  }
  over();
}

void NcclHandle::destroy() {
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr || aborts_) return;
  check_nccl(ncclCommDestroy(std::exchange(comm_, nullptr)), "closing");
}

bool NcclHandle::abort() {
  std::unique_lock lock(mutex_);
  if (!std::exchange(aborts_, true)) {
    changed_.wait_for(lock, kCallDeadline, [&] { return !calling_since_; });
    if (comm_ == nullptr) return has_aborted_ = true;
    std::thread([self = shared_from_this(), comm = std::exchange(comm_, nullptr)] {
      ncclCommAbort(comm);
      const std::lock_guard aborted(self->mutex_);
      self->has_aborted_ = true;
      self->changed_.notify_all();
    }).detach();
  }
  return changed_.wait_for(lock, kCallDeadline + kAbortDeadline, [&] { return has_aborted_; });
}

bool NcclHandle::is_aborted() {
  const std::lock_guard lock(mutex_);
  return aborts_;
}

NcclHandle::State NcclHandle::state() {
  const std::lock_guard lock(mutex_);
  State state{.failure = "", .calling_since = calling_since_, .doing = doing_};
  if (comm_ == nullptr || calling_since_) return state;
  ncclResult_t error = ncclSuccess;
  if (ncclCommGetAsyncError(comm_, &error) != ncclSuccess) return state;
  if (error != ncclSuccess && error != ncclInProgress) state.failure = ncclGetErrorString(error);
  return state;
}

}  // namespace coxswain::comm
