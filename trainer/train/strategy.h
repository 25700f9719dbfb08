#pragma once

#include <cstddef>

#include "trainer/optim/update_rule.h"
#include "trainer/train/control.h"
#include "trainer/train/step_plan.h"

namespace coxswain::train {

// Turns the gradients of one step into new weights, the same on every rank.
//
// A step is: begin, then for each micro-batch its backward pass (gradients_ready as ranges of the
// gradient buffer become final, finish_micro_batch at its end), then reduce, then update unless the
// step is skipped.
class Strategy {
 public:
  virtual ~Strategy() = default;
  virtual void begin(const StepPlan& plan) = 0;

  // Program::parameters [0, complete) of the running micro-batch are final in the gradient buffer;
  // its control segment is written before the first call.
  virtual void gradients_ready(int complete) = 0;
  virtual void finish_micro_batch() = 0;

  // Waits until the gradient buffer holds the sums of the whole step. Throws comm::PeerLost.
  virtual ControlSums reduce() = 0;
  virtual void update(const optim::UpdateRule& rule, const optim::UpdateStep& step) = 0;
};

}  // namespace coxswain::train
