#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/test_flags.h"
#include "tests/support/thread_communicator.h"
#include "tests/trainer/train/hooked_backend.h"
#include "trainer/train/all_reduce_strategy.h"
#include "trainer/train/training_loop.h"

namespace coxswain::train {

// Value. What rank 0 was told, in order of kinds.
struct Told {
  std::vector<RunInfo> started;
  std::vector<StepReport> steps;
  std::vector<EpochReport> epochs;
  std::vector<std::int64_t> weights;  // after which steps
  std::vector<CheckpointReport> saves;
  std::vector<std::string> warnings;
  std::vector<Summary> finished;

  std::string notes() const;  // those of the start, one a line
  bool nothing() const;
};

// Writes it down.
class Recorder : public Observer {
 public:
  explicit Recorder(Told& told) : told_(told) {}
  void started(const RunInfo& info) override { told_.started.push_back(info); }
  void stepped(const StepReport& report) override { told_.steps.push_back(report); }
  void finished_epoch(const EpochReport& report) override { told_.epochs.push_back(report); }
  void finished_epoch_with(const WeightsReport& report) override {
    told_.weights.push_back(report.step);
  }
  void saved(const CheckpointReport& report) override { told_.saves.push_back(report); }
  void warned(const std::string& message) override { told_.warnings.push_back(message); }
  void finished(const Summary& summary) override { told_.finished.push_back(summary); }

 private:
  Told& told_;
};

// Value. One rank after train() returned or threw.
struct Outcome {
  std::optional<Result> result;
  ExitCode code = ExitCode::kDone;  // of the Error it threw
  std::string error;
  bool peer_lost = false;
  std::vector<float> weights;  // after the last update; statistics first
  std::vector<float> slots;
  std::int64_t updates = 0;
  Told told;
};

// Value. What ranks work on and how they are disturbed.
struct World {
  int size = 1;
  const data::Dataset* training = nullptr;
  const data::Dataset* test = nullptr;
  // Each rank's hooks; `stop` is the flag that a signal would set in its process.
  std::function<Hooks(int rank, std::atomic<bool>& stop, test::ThreadNetwork& network)> hooks =
      nullptr;
  std::function<std::unique_ptr<backend::Backend>(int rank)> backend = nullptr;  // = reference
  StrategyFactory strategy = make_all_reduce_strategy;
  std::function<std::unique_ptr<comm::Communicator>(int rank, std::unique_ptr<comm::Communicator>)>
      wrap_communicator = nullptr;
  // = the real one. Given, saves take none of its time: none is still under way when it is asked.
  std::function<std::chrono::steady_clock::time_point(int rank)> now = nullptr;
  // Called as soon as the rank's communicator knows, on its thread.
  std::function<void(int rank, const comm::PeerLost&)> on_lost = nullptr;
  std::chrono::nanoseconds peer_deadline = std::chrono::seconds(60);
  bool on_rank_0_alone = false;  // the others have no checkpoint directory
};

// Runs train() on each rank, on threads, in one process.
std::vector<Outcome> run_ranks(const TrainOptions& options, const World& world);

// As run_ranks; no rank may fail. Checks what always holds: the same result and the same bits on
// every rank, and that only rank 0 is told. Returns rank 0's.
Outcome run(const TrainOptions& options, const World& world);

// A dense network on 1x6x6 images, SGD with momentum, batches of 8, one bucket, three epochs.
TrainOptions mlp_options();
// 60 images of 4 classes: 7 batches of 8 and one of 4 an epoch.
const data::Dataset& small_images();
// 23 other ones.
const data::Dataset& small_test_images();

// "" or where two buffers differ in their bits.
std::string difference(const std::vector<float>& a, const std::vector<float>& b);
// |a - b| / |a|, Euclidean.
double relative_distance(const std::vector<float>& a, const std::vector<float>& b);

// A hook that asks one rank to stop after `updates` updates of this process (0: from the start).
std::function<Hooks(int, std::atomic<bool>&, test::ThreadNetwork&)> stop_after(
    int rank, std::int64_t updates);

}  // namespace coxswain::train
