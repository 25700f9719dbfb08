#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/data/data_loader.h"
#include "trainer/train/batch_source.h"
#include "trainer/train/evaluation.h"
#include "trainer/train/executables.h"
#include "trainer/train/saver.h"
#include "trainer/train/speedometer.h"
#include "trainer/train/strategy.h"
#include "trainer/train/training_loop.h"

namespace coxswain::train {

// Resource. One training under way on one rank: its buffers, its place and the work of an epoch.
// See train().
class Training {
 public:
  Training(const TrainOptions& options, Collaborators& with);
  ~Training();
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  // Starts anew or from the newest checkpoint, makes ranks agree, prepares every batch size,
  // reports.
  void start();
  bool done() const;
  // Trains to the end of the epoch, or to the step at which all ranks stop, and evaluates.
  void run_epoch();
  // Saves on rank 0, then leaves the communicator.
  Result finish();

 private:
  bool complete() const;
  data::EpochPlace place() const;
  bool begins_run() const;
  bool resume(bool new_run);  // false: there is nothing to go on from
  void count_steps();
  void prepare_executables();
  RunInfo describe() const;

  void run_step(const data::EpochOrder& order, std::int64_t step);
  void run_micro_batch(const MicroBatch& micro, double divisor);
  void count_skipped();
  void save_if_due();
  void report_step(const backend::ControlSums& sums);
  void finish_epoch(double seconds_waited_for_data);
  void evaluate_now();
  void require_finite_end() const;

  std::function<checkpoint::Contents()> take_snapshot();
  data::SamplerOptions sampler() const;
  std::int64_t evaluation_batch() const;
  optim::LearningRate learning_rate() const;
  void fail_here(Phase phase) const;
  bool leads() const { return rank_ == 0; }

  const TrainOptions& options_;
  Collaborators& with_;
  const int rank_;
  const int world_size_;
  const StepCut cut_;
  std::span<const std::string_view> slot_names_;
  std::vector<std::string> notes_;
  graph::Graph graph_;
  graph::Program program_;
  std::unique_ptr<backend::Parameters> parameters_;
  Executables executables_;
  std::unique_ptr<Strategy> strategy_;
  std::unique_ptr<data::DataLoader> loader_;
  std::unique_ptr<Saver> saver_;  // rank 0 with a checkpoint directory

  checkpoint::State state_;
  optim::Schedule schedule_;  // lr scaled for the global batch
  std::int64_t steps_per_epoch_ = 0;
  std::int64_t total_steps_ = 0;  // state_.step at the end
  // Beyond state_.step, in the schedule: as if every step so far had had this start's batch.
  std::int64_t steps_ahead_ = 0;
  bool stopping_ = false;
  bool already_complete_ = false;
  std::string resumed_from_;      // path of the checkpoint; rank 0
  std::optional<Scores> scores_;  // of the newest evaluation
  std::int64_t scored_step_ = -1;
  Speedometer speed_;
};

}  // namespace coxswain::train
