#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/backend/backend.h"
#include "trainer/backend/control.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/comm/communicator.h"
#include "trainer/optim/lr_schedule.h"
#include "trainer/train/step_plan.h"
#include "trainer/train/train_options.h"

namespace coxswain::train {

class Timeline;

// Value. The learning rate of every step of a training.
struct Course {
  optim::Schedule schedule;  // lr scaled for the global batch
  std::int64_t total_steps = 0;
  std::int64_t steps_per_epoch = 0;
  // Beyond a step, in the schedule: as if every step so far had had this start's batch.
  std::int64_t steps_ahead = 0;

  optim::LearningRate rate(std::int64_t step) const {
    return optim::learning_rate(schedule, step + steps_ahead, total_steps + steps_ahead,
                                steps_per_epoch);
  }
};

// Value. What became of a step.
struct StepOutcome {
  backend::ControlSums sums;                 // over all ranks; whether it updated
  float lr = 0;                              // in force after it
  std::string warning = {};                  // what the user should know
  std::optional<double> reduced_scale = {};  // of the loss: this step's gradients overflowed
};

// Owns the truth of a training: the weights, what the optimizer keeps, and how many updates were
// made. Turns the gradients of a step into new weights, the same on every rank.
//
// First initialise or restore, then start. A step is: begin, then for each micro-batch
// begin_micro_batch, its passes (gradients_ready as ranges of the gradients become final) and
// finish_micro_batch, then finish_step. None of these need wait for the device: what became of a
// step is asked for later. Everything throws comm::PeerLost.
class Strategy {
 public:
  virtual ~Strategy() = default;

  // The program's first values, or a checkpoint's, on every rank. `contents` is rank 0's, null on
  // the others. Throws Error (65) for tensors that are not the model's.
  virtual void initialise(const graph::Program& training) = 0;
  virtual void restore(const checkpoint::Contents* contents) = 0;
  // The tensors as they are after the steps finished so far, without the loop's state. To be called
  // once, on any thread.
  virtual std::function<checkpoint::Contents()> snapshot() = 0;
  // Whether a snapshot is of all ranks: then each takes it after the same step, and rank 0's
  // counts. Rank 0 asks for it before begin(); all hear of it in the step's outcome. The lag is 0.
  virtual bool snapshots_together() const { return false; }
  virtual void ask_for_snapshot() {}
  // Between steps, on all ranks: from now on without a codec, if there is one.
  virtual void push_exactly() {}
  // What beside the backend decides the bits; "": nothing.
  virtual std::string fingerprint() const { return ""; }
  // What the user should know before the first step.
  virtual std::vector<std::string> notes() const { return {}; }
  // `step`: how many are done.
  virtual void start(const Course& course, std::int64_t step) = 0;

  // What this rank tells of itself, in the step that begins next; the strategy adds how long it
  // waited. One that sums nothing over ranks has nobody to tell.
  virtual void tell(const backend::RankFigures&) {}

  virtual void begin(const StepPlan& plan) = 0;
  // Writes into the control segment what this rank has to say: whether it was asked to stop. The
  // forward pass adds its sums to it.
  virtual void begin_micro_batch(bool stop) = 0;
  // Program::parameters [0, complete) of the running micro-batch are final in the gradients.
  virtual void gradients_ready(int complete) = 0;
  virtual void finish_micro_batch() = 0;
  // Sums over all ranks, then updates, unless what was summed is not finite.
  virtual void finish_step() = 0;

  // How many steps may be begun before the outcome of one is asked for: 0 on a host, the same for
  // all of a job. A stop that ranks hear of in the outcome of step s is obeyed after s + lag.
  virtual int lag() const = 0;
  // Of the oldest finished step that was not asked for. Waits for it.
  virtual StepOutcome outcome() = 0;
};

// View. What a strategy works with; outlives it.
struct StrategyInputs {
  const TrainOptions& options;
  comm::Communicator& communicator;
  backend::Backend& backend;
  backend::Parameters& parameters;
  StepCut cut;
  std::function<std::chrono::steady_clock::time_point()> now;
  Timeline* timeline = nullptr;
};
using StrategyFactory = std::function<std::unique_ptr<Strategy>(const StrategyInputs&)>;

}  // namespace coxswain::train
