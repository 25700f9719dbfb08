#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace coxswain::data {

// shuffle: step s is rows [sB, (s+1)B) of the epoch's permutation, rank r its r-th contiguous cut; independent
// of the world size. contiguous: rank r owns the r-th part of the data, n/N rows each, tail dropped (SINGA).
// split-batch: as contiguous, shuffled inside the part each epoch (D2L's SplitBatchSampler).
enum class Split { kShuffle, kContiguous, kSplitBatch };

// What happens to rows that do not fill a batch: a short last step, none, or the start of the next epoch.
enum class LastBatch { kKeep, kDiscard, kRollover };

// Value. All that decides which sample is used when. Pure: no I/O, no state.
struct SamplerOptions {
  std::int64_t dataset_size = 0;
  std::int64_t global_batch = 0;  // rows of one step over all ranks
  int world_size = 1;
  Split split = Split::kShuffle;
  LastBatch last_batch = LastBatch::kKeep;
  std::uint64_t seed = 0;
};

// Value. The order of one epoch, made once and read by step.
class EpochOrder {
 public:
  EpochOrder(const SamplerOptions& options, std::int64_t epoch);

  std::int64_t steps() const;
  // Rows of this step on all ranks: what gradients are divided by.
  std::int64_t global_count(std::int64_t step) const;
  // Sample ids of one rank in this step; may be empty in a short last step.
  std::span<const std::int64_t> rank_rows(std::int64_t step, int rank) const;
  // Ids of virtual shard `shard` of `num_shards`: rows [iB/V, (i+1)B/V) of the step (shuffle only).
  std::span<const std::int64_t> shard_rows(std::int64_t step, int shard, int num_shards) const;

 private:
  SamplerOptions options_;
  std::vector<std::int64_t> ids_;  // shuffle: the permutation; otherwise one part a rank, one after another
  std::int64_t part_rows_ = 0;     // contiguous, split-batch: rows of each rank in this epoch
};

// Row range [first, last) of part `index` of `parts` over `count` rows: [index*count/parts, ...).
struct RowRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
};
RowRange cut(std::int64_t count, int index, int parts);

}  // namespace coxswain::data
