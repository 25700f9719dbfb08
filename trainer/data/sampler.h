#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/options/options.h"

namespace coxswain::data {

// Value. All that decides which sample is used when. Pure: no I/O, no state.
struct SamplerOptions {
  std::int64_t dataset_size = 0;
  std::int64_t global_batch = 0;  // rows of one step over all ranks
  int world_size = 1;
  Split split = Split::kShuffle;
  LastBatch last_batch = LastBatch::kKeep;
  std::uint64_t seed = 0;
};

// Value. A place in an epoch, in rows over all ranks: it does not depend on the size of steps.
struct EpochPlace {
  std::int64_t rolled_over = 0;  // rows of earlier epochs that the epoch began with
  std::int64_t done = 0;         // of those and its own
  bool operator==(const EpochPlace&) const = default;
};

// Where `epoch` begins when every step before it took `options.global_batch` rows.
EpochPlace beginning_of(const SamplerOptions& options, std::int64_t epoch);

// Steps of `epochs` epochs, the first of them from `from` on. Throws as EpochOrder does.
std::int64_t steps_of(const SamplerOptions& options, std::int64_t epochs, EpochPlace from = {});

// Value. The order of one epoch from a place in it, made once and read by step. Epochs count from
// 0, which has nothing rolled over; steps count from the place.
//
// A step takes B rows over all ranks. With contiguous and split-batch rank r has taken (n + r)/N
// rows of its part when n are done: exactly n/N where N divides B, else parts stay within one row
// of each other, and a rank's rows may differ by one from step to step. An epoch may have no step:
// rollover of fewer rows than a batch.
//
// Throws Error (65) when no step could ever be made: no rows, fewer rows than ranks that own a part
// each, or fewer rows than one batch with discard.
class EpochOrder {
 public:
  EpochOrder(const SamplerOptions& options, std::int64_t epoch)
      : EpochOrder(options, epoch, beginning_of(options, epoch)) {}
  EpochOrder(const SamplerOptions& options, std::int64_t epoch, EpochPlace from);

  std::int64_t steps() const { return steps_; }
  EpochPlace next() const;  // where the next epoch begins after all of these steps
  // Rows of this step on all ranks: what gradients are divided by.
  std::int64_t global_count(std::int64_t step) const;
  // Sample ids of one rank in this step; may be empty in a short last step or when B < N.
  std::span<const std::int64_t> rank_rows(std::int64_t step, int rank) const;
  // Ids of virtual shard `shard` of `num_shards`: rows [iB/V, (i+1)B/V) of the step (shuffle only).
  std::span<const std::int64_t> shard_rows(std::int64_t step, int shard, int num_shards) const;

 private:
  std::span<const std::int64_t> part_rows(std::int64_t step, int part) const;

  SamplerOptions options_;
  int num_parts_ = 1;  // shuffle: 1; otherwise the world size
  EpochPlace from_;
  std::int64_t steps_ = 0;
  std::int64_t rolled_rows_ = 0;   // of each part in ids_
  std::int64_t rows_ = 0;          // of each part in ids_, rolled over ones first
  std::vector<std::int64_t> ids_;  // one part after another
};

// Row range [first, last) of part `index` of `parts` over `count` rows: [index*count/parts, ...).
struct RowRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
  bool operator==(const RowRange&) const = default;
};
RowRange cut(std::int64_t count, int index, int parts);

}  // namespace coxswain::data
