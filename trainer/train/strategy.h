#pragma once

#include "trainer/backend/control.h"
#include "trainer/optim/lr_schedule.h"
#include "trainer/optim/update_rule.h"
#include "trainer/train/step_plan.h"

namespace coxswain::train {

// Turns the gradients of one step into new weights, the same on every rank.
//
// A step is: begin, then for each micro-batch begin_micro_batch, its passes (gradients_ready as
// ranges of the gradients become final) and finish_micro_batch, then finish_step.
class Strategy {
 public:
  virtual ~Strategy() = default;
  virtual void begin(const StepPlan& plan) = 0;

  // Writes into the control segment what this rank has to say: whether it was asked to stop. The
  // forward pass adds its sums to it.
  virtual void begin_micro_batch(bool stop) = 0;
  // Program::parameters [0, complete) of the running micro-batch are final in the gradients.
  virtual void gradients_ready(int complete) = 0;
  virtual void finish_micro_batch() = 0;

  // Sums over all ranks, then updates, unless what was summed is not finite. Throws comm::PeerLost.
  virtual backend::ControlSums finish_step(const optim::LearningRate& rate) = 0;
};

}  // namespace coxswain::train
