#pragma once

#include <chrono>
#include <cstdint>

namespace coxswain::train {

// Samples a second of training steps; evaluation and saving at the end of an epoch are left out.
class Speedometer {
 public:
  void start() { started_ = Clock::now(); }
  void add(std::int64_t samples) { samples_ += samples; }
  void pause() { seconds_ += running(); started_ = Clock::now(); }

  // Since the last mark.
  double seconds_since_mark() const { return seconds() - marked_seconds_; }
  double recent() const { return rate(samples_ - marked_samples_, seconds() - marked_seconds_); }
  void mark() {
    marked_samples_ = samples_;
    marked_seconds_ = seconds();
  }
  double overall() const { return rate(samples_, seconds_); }
  double seconds() const { return seconds_ + running(); }

 private:
  using Clock = std::chrono::steady_clock;
  double running() const { return std::chrono::duration<double>(Clock::now() - started_).count(); }
  static double rate(std::int64_t samples, double seconds) {
    return seconds > 0 ? static_cast<double>(samples) / seconds : 0;
  }

  Clock::time_point started_ = Clock::now();
  std::int64_t samples_ = 0;
  double seconds_ = 0;
  std::int64_t marked_samples_ = 0;
  double marked_seconds_ = 0;
};

}  // namespace coxswain::train
