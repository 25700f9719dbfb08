#include "operator/controller/watchdog.h"

#include <fmt/format.h>

namespace coxswain::controller {

void Watchdog::turn(const std::string& who) {
  const auto now = clock_();
  const std::lock_guard lock(mutex_);
  began_[who] = now;
}

void Watchdog::rest(const std::string& who) {
  const std::lock_guard lock(mutex_);
  began_.erase(who);
}

std::string Watchdog::stuck() const {
  const auto now = clock_();
  std::string text;
  const std::lock_guard lock(mutex_);
  for (const auto& [who, began] : began_) {
    const auto time = std::chrono::duration_cast<std::chrono::seconds>(now - began);
    if (time > kLongest)
      text += fmt::format("{}{} for {} s", text.empty() ? "" : ", ", who, time.count());
  }
  return text;
}

}  // namespace coxswain::controller
