#pragma once

#include <functional>
#include <vector>

#include "trainer/backend/parameters.h"
#include "trainer/train/buckets.h"
#include "trainer/train/part_sums.h"
#include "trainer/train/step_plan.h"

namespace coxswain::train {

// Resource. What one rank brings to the sums of a step: its own parts of the gradients, from one or
// more micro-batches (docs/design.md, "Order of sums"), handed over range by range, as soon as they
// are final: while backward of the last micro-batch still runs, where it can be.
class RankSums {
 public:
  // Takes a range's parts: they stay as they are until the next begin().
  using HandOver = std::function<void(const Range& range, std::vector<tensor::Slice> parts)>;

  RankSums(const backend::Parameters& parameters, int accumulate, HandOver hand_over);

  // In order, and all of the buffer together.
  void cut_into(std::vector<Range> ranges) { ranges_ = std::move(ranges); }

  // See Strategy for the order of these.
  void begin(const StepPlan& plan);
  void gradients_ready(int complete);
  void finish_micro_batch();

 private:
  bool last_micro_batch() const { return micro_ + 1 == plan_.micro_batches.size(); }
  bool streams() const;
  void hand_over_until(std::int64_t complete_floats);
  std::vector<tensor::Slice> parts_of(const Range& range);
  void finish_shard(bool part_ends);

  const backend::Parameters& parameters_;
  tensor::Memory& memory_;
  const HandOver hand_over_;
  std::vector<Range> ranges_;
  std::size_t next_ = 0;  // of them
  StepPlan plan_;
  std::size_t micro_ = 0;
  tensor::Buffer shard_sum_;  // micro-batches of the running shard before this one
  bool shard_sum_used_ = false;
  PartSums parts_;
};

}  // namespace coxswain::train
