#include "operator/controller/interruptible_sleep.h"

#include <condition_variable>
#include <mutex>
#include <utility>

namespace coxswain::controller {

void interruptible_sleep(std::chrono::nanoseconds time, std::stop_token stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, std::move(stop), time, [] { return false; });
}

}  // namespace coxswain::controller
