#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>

#include "trainer/data/data_loader.h"
#include "trainer/train/batch_source.h"

namespace coxswain::train {

// One sequence of steps through the epochs, asked for by their numbers: never one of an epoch
// before the newest.
class StepSequence {
 public:
  // `first`: the number of the step at `from`.
  StepSequence(const data::SamplerOptions& sampler, const StepCut& cut, Position from,
               std::int64_t first)
      : sampler_(sampler), cut_(cut), at_(from), first_(first) {}

  // Of this worker, which takes all of the step. Its rows are those of the order under way.
  StepPlan plan(std::int64_t step);
  std::int64_t epoch() const { return at_.epoch; }  // of the newest plan

 private:
  const data::EpochOrder& order();                         // under way
  std::int64_t end() { return first_ + order().steps(); }  // the next epoch's first

  data::SamplerOptions sampler_;
  StepCut cut_;
  Position at_;
  std::int64_t first_;  // of the epoch
  std::optional<data::EpochOrder> order_;
};

// Resource. The steps that a worker is to compute, from the thread that hears of them to that which
// loads their batches.
class LeasedBatches {
 public:
  // Before any is asked for.
  void start(StepSequence sequence);
  void add(std::int64_t step);  // on any thread
  void close();                 // nobody waits any more
  // The next micro-batch; waits for a step. Nullopt: closed.
  std::optional<data::BatchRequest> next();

 private:
  std::optional<std::int64_t> next_step();

  std::optional<StepSequence> sequence_;
  StepPlan plan_;
  std::size_t next_micro_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::int64_t> steps_;  // guarded by mutex_
  bool is_closed_ = false;          // guarded by mutex_
};

}  // namespace coxswain::train
