#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <string>

namespace coxswain::controller {

// Resource. Whether the loops of a program still turn. Each says when it begins a turn, and when it
// has nothing to do and may wait for as long as it likes. Every call of the API server has a
// deadline, so a turn that lasts kLongest hangs for good. Thread-safe.
class Watchdog {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;
  static constexpr std::chrono::minutes kLongest{10};

  explicit Watchdog(Clock clock = std::chrono::steady_clock::now) : clock_(std::move(clock)) {}

  void turn(const std::string& who);  // also the next one, without a rest between
  void rest(const std::string& who);

  // Who has been at one turn for too long: "pass over ns/mnist for 612 s"; empty: nobody.
  std::string stuck() const;

 private:
  const Clock clock_;
  mutable std::mutex mutex_;
  std::map<std::string, std::chrono::steady_clock::time_point> began_;  // guarded by mutex_
};

}  // namespace coxswain::controller
