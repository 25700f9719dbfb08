#pragma once

#include <deque>
#include <vector>

#include "trainer/train/buckets.h"
#include "trainer/train/part_sums.h"
#include "trainer/train/strategy.h"

namespace coxswain::train {

// Resource. Every rank holds all weights: sums gradients over all ranks with a Communicator, bucket
// by bucket while backward runs, and updates on every rank alike. With several parts or
// micro-batches a rank adds its own first (docs/design.md, "Order of sums") and the buckets follow
// the last of them.
class AllReduceStrategy : public Strategy {
 public:
  // Throws Error when the communicator does not reach the parameters' memory (70), or can't give
  // the order of sums that the options ask for (65).
  explicit AllReduceStrategy(const StrategyInputs& inputs);

  void initialise(const graph::Program& training) override;
  void restore(const checkpoint::Contents* contents) override;
  std::function<checkpoint::Contents()> snapshot() override;
  void start(const Course& course, std::int64_t step) override;

  void begin(const StepPlan& plan) override;
  void begin_micro_batch(bool stop) override;
  void gradients_ready(int complete) override;
  void finish_micro_batch() override;
  void finish_step() override;
  int lag() const override { return 0; }
  StepOutcome outcome() override;

 private:
  // The sums of a step on their way to the host.
  struct Untold {
    tensor::Memory::Snapshot control;
    float lr;
  };

  bool last_micro_batch() const { return micro_ + 1 == plan_.micro_batches.size(); }
  bool streams() const;
  void start_buckets(std::int64_t complete_floats);
  void start_bucket(const Bucket& bucket);
  void finish_shard(bool part_ends);

  StrategyInputs with_;
  tensor::Memory& memory_;
  comm::ReductionPlan reduction_;
  std::vector<Bucket> buckets_;
  Course course_;
  std::int64_t step_ = 0;  // finished

  StepPlan plan_;
  std::size_t micro_ = 0;
  std::size_t next_bucket_ = 0;
  std::vector<comm::Ticket> tickets_;
  tensor::Buffer shard_sum_;  // micro-batches of the running shard before this one
  bool shard_sum_used_ = false;
  PartSums parts_;
  double untold_seconds_waiting_ = 0;  // for the last sums: goes with the next ones
  std::deque<Untold> untold_;
};

std::unique_ptr<Strategy> make_all_reduce_strategy(const StrategyInputs& inputs);

}  // namespace coxswain::train
