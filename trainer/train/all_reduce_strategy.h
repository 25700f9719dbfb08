#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "trainer/backend/backend.h"
#include "trainer/comm/communicator.h"
#include "trainer/train/buckets.h"
#include "trainer/train/part_sums.h"
#include "trainer/train/strategy.h"

namespace coxswain::train {

// Resource. Sums gradients over all ranks with a Communicator, bucket by bucket while backward
// runs, and updates on every rank alike. With several parts or micro-batches a rank adds its own
// first (docs/design.md, "Order of sums") and the buckets follow the last of them.
class AllReduceStrategy : public Strategy {
 public:
  using Now = std::function<std::chrono::steady_clock::time_point()>;

  // Throws Error (70) when the communicator does not reach the parameters' memory.
  AllReduceStrategy(comm::Communicator& communicator, backend::Backend& backend,
                    backend::Parameters& parameters, const optim::UpdateRule& rule,
                    const StepCut& cut, std::int64_t bucket_bytes, Now now);

  void begin(const StepPlan& plan) override;
  void begin_micro_batch(bool stop) override;
  void gradients_ready(int complete) override;
  void finish_micro_batch() override;
  backend::ControlSums finish_step(const optim::LearningRate& rate) override;

 private:
  bool last_micro_batch() const { return micro_ + 1 == plan_.micro_batches.size(); }
  bool streams() const;
  void start_buckets(std::int64_t complete_floats);
  void start(const Bucket& bucket);
  void finish_shard(bool part_ends);

  comm::Communicator& communicator_;
  backend::Backend& backend_;
  backend::Parameters& parameters_;
  optim::UpdateRule rule_;
  Now now_;
  comm::ReductionPlan reduction_;
  std::vector<Bucket> buckets_;

  StepPlan plan_;
  std::size_t micro_ = 0;
  std::size_t next_bucket_ = 0;
  std::vector<comm::Ticket> tickets_;
  tensor::Buffer shard_sum_;  // micro-batches of the running shard before this one
  bool shard_sum_used_ = false;
  PartSums parts_;
  double untold_seconds_waiting_ = 0;  // for the last sums: goes with the next ones
};

// Measures what an all-reduce costs on this communicator and picks the size for a model of
// `model_bytes`; every rank gets rank 0's answer. Takes a few milliseconds.
std::int64_t measure_bucket_bytes(comm::Communicator& communicator, std::int64_t model_bytes);

}  // namespace coxswain::train
