#pragma once

#include <cstdint>
#include <vector>

#include "trainer/options/options.h"

namespace coxswain::optim {

// Value. The learning rate as a function of the step. `lr` is the peak, already scaled for the
// world size.
struct Schedule {
  ScheduleKind kind = ScheduleKind::kConstant;
  float lr = 0.01F;
  float momentum = 0;
  float min_lr = 0;          // poly, cosine: the value of the last step; cyclic: of both ends
  double warmup_epochs = 0;  // linear from lr/steps to lr; every kind but one-cycle
  std::vector<double> milestones = {};  // multistep, in epochs
  double step_epochs = 1;               // step
  double rise_epochs = 1;               // cyclic
  CycleMode cycle_mode = CycleMode::kTriangular;
  float gamma = 0.1F;      // multistep, step, exponential
  float power = 1;         // poly
  float pct_start = 0.3F;  // one-cycle, as PyTorch's OneCycleLR with cosine annealing
  float div_factor = 25;
  float final_div_factor = 1e4F;
  bool cycle_momentum = false;  // one-cycle: max_momentum -> base_momentum -> max_momentum
  float base_momentum = 0.85F;
  float max_momentum = 0.95F;
  bool operator==(const Schedule&) const = default;
};

struct LearningRate {
  float lr = 0;
  float momentum = 0;
};

// The values for step `step` (from 0) of `total_steps`. The caller derives steps from samples, so
// that they do not depend on pushes or ranks. Warm-up takes the first round(warmup_epochs *
// steps_per_epoch) steps (Goyal et al. 2017, 2.2); poly and cosine then run from lr to min_lr over
// the steps that are left; multistep, step and exponential count from step 0; cyclic warms up to
// min_lr and counts from there. A step past the end has the value of the last of poly and cosine.
LearningRate learning_rate(const Schedule& schedule, std::int64_t step, std::int64_t total_steps,
                           std::int64_t steps_per_epoch);

}  // namespace coxswain::optim
