#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "trainer/backend/control.h"

namespace coxswain::train {

std::int64_t resident_bytes();  // of this process; 0: not known

// Resource. When a rank speaks of itself: the ranks take turns, one a step, and none speaks twice
// in a second. So what is told costs no message, and a few floats of one step in many.
class RankPulse {
 public:
  using Clock = std::chrono::steady_clock;
  struct Place {
    int rank = 0;
    int size = 1;
  };

  RankPulse(Place place, std::function<Clock::time_point()> now,
            std::function<std::int64_t()> memory = resident_bytes)
      : place_(place), now_(std::move(now)), memory_(std::move(memory)), told_(now_()) {}

  // Of the step that is to begin, from 0, after so many samples of this rank's and so many seconds
  // in which it waited for them since the start. Rank -1: it does not speak.
  backend::RankFigures take(std::int64_t step, std::int64_t samples, double seconds_in_data);

 private:
  Place place_;
  std::function<Clock::time_point()> now_;
  std::function<std::int64_t()> memory_;
  Clock::time_point told_;
  std::int64_t samples_told_ = 0;
  double data_told_ = 0;
};

}  // namespace coxswain::train
