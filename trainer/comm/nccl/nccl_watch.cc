#include "trainer/comm/nccl/nccl_watch.h"

#include <fmt/format.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <stop_token>

namespace coxswain::comm {

namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

class Watcher {
 public:
  Watcher(NcclHandle& handle, const NcclOptions& options) : handle_(handle), options_(options) {}

  std::optional<Error> look() {
    const NcclHandle::State state = handle_.state();
    const auto now = Clock::now();
    if (state.calling_since && now - *state.calling_since > options_.startup_deadline) {
      return Error(ExitCode::kPeersMissing,
                   fmt::format("[nccl] {} has not ended within {:.0f} s: the ranks live, but their "
                               "GPUs find no way to each other: see NCCL_SOCKET_IFNAME, and "
                               "NCCL_DEBUG=INFO in the job's environment",
                               state.doing, seconds(now - *state.calling_since)));
    }
    if (state.failure.empty()) return std::nullopt;
    if (!failed_) failed_ = now;
    if (now - *failed_ < options_.peer_deadline) return std::nullopt;
    return Error(ExitCode::kPeerLost,
                 fmt::format("[nccl] {}, and all ranks live: a link or a GPU is broken: "
                             "NCCL_DEBUG=WARN in the job's environment says more",
                             state.failure));
  }

 private:
  NcclHandle& handle_;
  const NcclOptions& options_;
  std::optional<Clock::time_point> failed_;
};

void watch(const std::stop_token& stop, NcclHandle& handle, const NcclOptions& options) {
  Watcher watcher(handle, options);
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  while (!stop.stop_requested()) {
    if (const auto broken = watcher.look()) {
      if (options.on_broken) options.on_broken(*broken);
      return;
    }
    stopped.wait_for(lock, stop, options.watch_interval, [] { return false; });
  }
}

}  // namespace

NcclWatch::NcclWatch(std::shared_ptr<NcclHandle> handle, NcclOptions options)
    : thread_([handle = std::move(handle), options = std::move(options)](
                  const std::stop_token& stop) { watch(stop, *handle, options); }) {}

}  // namespace coxswain::comm
