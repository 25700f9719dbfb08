#pragma once

#include <cstdint>
#include <vector>

namespace coxswain::comm {

// Value. Which parts are summed and in which order. Pure.
//
// Parts are numbered over all ranks in rank order: rank 0 brings the first parts_of_rank[0], and so
// on. The owner of an element does `adds` in order: part[into] += part[from]; the sum ends in part
// 0. The order is a property of the plan alone, so bits depend neither on timing nor on how the
// buffer is cut into buckets.
struct ReductionPlan {
  struct Add {
    int into = 0;
    int from = 0;
    bool operator==(const Add&) const = default;
  };
  std::vector<int> parts_of_rank;
  std::vector<Add> adds;

  int total_parts() const;
  int first_part(int rank) const;
  bool operator==(const ReductionPlan&) const = default;
};

// One part a rank, added in rank order: ((0 + 1) + 2) + ...
ReductionPlan in_rank_order(int world_size);

// One part a rank, added in pairs of neighbours, these in pairs of neighbours, and so on: ((0 + 1)
// + (2 + 3)) + ... So 2, 4 or 8 ranks of a machine are added among themselves first.
ReductionPlan in_pairs(int world_size);

// What anyWorldSize sums: the tree that halves [0, num_shards) (a power of two). Rank r owns shards
// [rV/N, (r+1)V/N) and brings one part for each complete subtree that it owns, in order of shards;
// owners finish the tree. The same bits for every world_size <= num_shards.
ReductionPlan halving_tree(int num_shards, int world_size);

// Value. A plan as machines carry it out, to the same bits: each adds first what it can of its own
// ranks' parts, then what is left is added.
struct MachinePlan {
  struct Machine {
    std::vector<ReductionPlan::Add> adds;
    std::vector<int> left;  // the parts that hold something then
  };
  std::vector<Machine> machines;
  std::vector<ReductionPlan::Add> adds;  // of what is left
};
MachinePlan by_machine(const ReductionPlan& plan, const std::vector<int>& machine_of_rank);

// The shards of each part of `rank`, in order: [first, last). Within a part the rank itself adds by
// halving.
struct ShardRange {
  int first = 0;
  int last = 0;
  bool operator==(const ShardRange&) const = default;
};
std::vector<ShardRange> parts_of(int num_shards, int world_size, int rank);

// The rank that sums the element at `offset` (in floats) of the flat buffer: blocks of 64 KiB go
// round.
constexpr std::int64_t kOwnerBlock = 16384;  // floats
inline int owner_of(std::int64_t offset, int world_size) {
  return static_cast<int>((offset / kOwnerBlock) % world_size);
}

}  // namespace coxswain::comm
