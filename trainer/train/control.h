#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "trainer/backend/executable.h"
#include "trainer/tensor/parameter_layout.h"

namespace coxswain::train {

// Value. What every step sums over all ranks beside the gradients, in the control segment of the
// same buffer. Every rank acts on the same sums after the same step: there is no other collective
// for stop or metrics.
struct ControlSums {
  double stop_requests = 0;
  double samples = 0;
  double loss = 0;
  double correct = 0;
  double not_finite = 0;       // micro-batches whose loss is not finite
  double seconds_waiting = 0;  // for the sums of the step before
};

inline void write_control(std::span<float> control, const backend::LossSums& sums, bool stop,
                          double seconds_waiting) {
  const bool finite = std::isfinite(sums.loss);
  std::fill(control.begin(), control.end(), 0.0F);
  control[0] = stop ? 1.0F : 0.0F;
  control[1] = static_cast<float>(sums.samples);
  control[2] = finite ? static_cast<float>(sums.loss) : 0.0F;
  control[3] = static_cast<float>(sums.correct);
  control[4] = finite ? 0.0F : 1.0F;
  control[5] = static_cast<float>(seconds_waiting);
}

inline ControlSums read_control(std::span<const float> control) {
  return {control[0], control[1], control[2], control[3], control[4], control[5]};
}

}  // namespace coxswain::train
