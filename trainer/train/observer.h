#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/backend/control.h"
#include "trainer/checkpoint/checkpoint.h"

namespace coxswain::train {

// Value. What is known before the first step; printed once.
struct RunInfo {
  std::string model;
  std::int64_t parameters = 0;
  std::int64_t multiply_accumulates = 0;  // forward, one sample
  int rank = 0;
  int world_size = 1;
  int threads = 1;
  std::int64_t training_samples = 0;
  std::int64_t test_samples = 0;
  std::int64_t epochs = 0;
  std::int64_t total_steps = 0;
  std::int64_t steps_per_epoch = 0;
  std::int64_t global_batch = 0;   // of a step
  bool ranks_train_apart = false;  // each makes steps of its own
  double lr = 0;                   // in force, after scaling
  std::string fingerprint;
  std::vector<std::string> notes;       // e.g. "resumed step-00000400.g1: continues bit for bit"
  std::int64_t first_step = 0;          // > 0 after a resume
  std::int64_t epoch = 0;               // under way, from 1; the last one if all are done
  std::string resumed_from;             // path of the checkpoint; empty: from the beginning
  bool tells_top5 = false;              // beside the accuracy, which is top-1
  std::optional<double> one_rank_rate;  // images/s of one rank alone
};

// Value. Sums over all ranks after a step.
struct StepReport {
  std::int64_t step = 0;          // steps done
  std::int64_t epoch = 0;         // from 1
  double loss = 0;                // mean of this step
  double accuracy = 0;            // running, of this epoch's training samples
  double samples_per_second = 0;  // recent, all ranks
  double seconds_left = 0;
  double lr = 0;
  std::optional<double> scaling_efficiency;   // of this epoch so far; see Stretch in speedometer.h
  std::optional<double> staleness;            // async: mean of this epoch's updates so far
  std::optional<double> pushes_per_second;    // async: of all workers, recent
  std::optional<double> top5;                 // running; nothing: not asked for or not known
  std::optional<double> one_rank_efficiency;  // this pace by that of as many ranks, each alone
};

struct EpochReport {
  std::int64_t epoch = 0;  // from 1
  double training_loss = 0;
  double training_accuracy = 0;
  bool evaluated = false;
  double loss = 0;      // of every test sample, exactly once
  double accuracy = 0;  // top-1
  double top5 = 0;
  double seconds = 0;
  double samples_per_second = 0;
  double input_bound = 0;  // share of the epoch spent waiting for data, 0..1
  std::optional<double> scaling_efficiency;
  std::optional<double> staleness;  // async: mean of the epoch's updates
  std::int64_t most_staleness = 0;
  std::int64_t step = 0;     // steps done at its end
  std::optional<double> lr;  // of its last step; nothing: this process made none
  std::optional<double> training_top5;
  std::optional<double> one_rank_efficiency;
  double seconds_in_all = 0;  // since this process began to train
};

// View. All weights as they are after a step, in canonical order.
struct WeightsReport {
  std::int64_t step = 0;
  std::span<const checkpoint::NamedTensor> tensors;
};

struct CheckpointReport {
  std::int64_t step = 0;
  std::string path;
  std::int64_t bytes = 0;
  double seconds = 0;
  std::string error;  // empty: saved
};

struct Summary {
  std::string result;  // "Succeeded", "Saved" (left on request), "Failed"
  std::optional<double> accuracy;
  std::optional<double> loss;
  std::int64_t epochs = 0;
  std::int64_t steps = 0;
  double samples_per_second = 0;
  std::optional<double> scaling_efficiency;
  std::string checkpoint;
  std::optional<double> top5;  // where it is told
  std::optional<double> one_rank_efficiency;
  double seconds = 0;  // in all: steps, evaluations and saves of this process
};

// Told what happens in training, on the training thread: must return quickly and never throw.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void started(const RunInfo& info) = 0;
  virtual void stepped(const StepReport& report) = 0;
  virtual void told(const backend::RankFigures&) {}  // by any rank, of itself
  virtual void finished_epoch(const EpochReport& report) = 0;
  virtual void finished_epoch_with(const WeightsReport&) {}  // where it is asked for
  virtual void saved(const CheckpointReport& report) = 0;
  virtual void warned(const std::string& message) = 0;
  virtual void finished(const Summary& summary) = 0;
};

}  // namespace coxswain::train
