#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/comm/reduction.h"
#include "trainer/data/sampler.h"

namespace coxswain::train {

// View. Rows that go through the model together; empty when a short last step has none for this
// place.
struct MicroBatch {
  std::span<const std::int64_t> sample_ids;
  int part = 0;  // which of this rank's parts of the reduction its gradients belong to
  int shard =
      0;  // index within the part: shards are added by halving, micro-batches of one shard in order
  // The sample before the first, in the step's order over all ranks; before its first comes its
  // last. Where samples are mixed each one's partner is the one before it.
  std::int64_t before = -1;
};

// View. What one rank does in one step. Pure: the same on every rank for the same arguments.
struct StepPlan {
  std::vector<MicroBatch> micro_batches;
  std::int64_t global_count = 0;  // rows on all ranks
  std::int64_t statistic_parts =
      0;  // non-empty micro-batches on all ranks: BatchNorm batches that are summed
};

// Of each micro-batch.
std::vector<std::int64_t> rows_of(const StepPlan& plan);

// Value. How a step's rows are cut: over ranks (sameWorldSize) or over virtual shards
// (anyWorldSize), then into `accumulate` micro-batches.
struct StepCut {
  int world_size = 1;
  int virtual_shards = 0;  // 0: sameWorldSize
  int accumulate = 1;

  comm::ReductionPlan reduction() const;
  bool operator==(const StepCut&) const = default;
};

// `order` must outlive the plan.
StepPlan plan_step(const StepCut& cut, const data::EpochOrder& order, std::int64_t step, int rank);

// Batch sizes, without 0, that `rank` meets in an epoch.
std::vector<std::int64_t> batch_sizes(const StepCut& cut, const data::EpochOrder& order, int rank);

}  // namespace coxswain::train
