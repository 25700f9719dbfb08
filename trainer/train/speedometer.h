#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

namespace coxswain::train {

// Value. Training steps between two moments.
struct Stretch {
  std::int64_t steps = 0;
  std::int64_t samples = 0;
  double seconds = 0;
  double seconds_waiting = 0;  // for the sums: mean of the ranks

  double samples_per_second() const {
    return seconds > 0 ? static_cast<double>(samples) / seconds : 0;
  }

  double steps_per_second() const { return seconds > 0 ? static_cast<double>(steps) / seconds : 0; }

  // The share of their time in which ranks do what they would do alone: everything but waiting for
  // an all-reduce that backward did not hide and for late peers. 1 for one rank; nothing before two
  // steps are done, since a step's waiting is known with the next one.
  //
  // It does not see what ranks take from each other while they compute: cores, caches and memory
  // bandwidth that ranks of one machine share, and the time of the thread that exchanges.
  std::optional<double> scaling_efficiency() const {
    if (steps < 2 || seconds <= 0) return std::nullopt;
    // A wait that the first step of an epoch tells was the last one's before it.
    return std::clamp(1 - seconds_waiting / seconds, 0.0, 1.0);
  }
};

// The pace of training steps. Runs from the first step of an epoch to its last: evaluation and
// saving between epochs are left out.
class Speedometer {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Speedometer(std::function<Clock::time_point()> now) : now_(std::move(now)) {}

  void start_epoch() {
    epoch_began_ = total_;
    started_ = now_();
  }
  void add(std::int64_t samples, double seconds_waiting, std::int64_t steps = 1) {
    total_.steps += steps;
    total_.samples += samples;
    total_.seconds_waiting += seconds_waiting;
  }
  void finish_epoch() {
    total_ = overall();
    started_.reset();
  }
  void mark() { marked_ = overall(); }

  Stretch overall() const {
    Stretch all = total_;
    if (started_) all.seconds += std::chrono::duration<double>(now_() - *started_).count();
    return all;
  }
  Stretch epoch() const { return since(epoch_began_); }  // the newest, so far
  Stretch recent() const { return since(marked_); }      // since the last mark

 private:
  Stretch since(const Stretch& then) const {
    const Stretch all = overall();
    return {all.steps - then.steps, all.samples - then.samples, all.seconds - then.seconds,
            all.seconds_waiting - then.seconds_waiting};
  }

  std::function<Clock::time_point()> now_;
  std::optional<Clock::time_point> started_;
  Stretch total_;  // its seconds: of finished epochs
  Stretch epoch_began_;
  Stretch marked_;
};

}  // namespace coxswain::train
