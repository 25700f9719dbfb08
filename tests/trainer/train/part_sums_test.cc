#include "trainer/train/part_sums.h"

#include <gtest/gtest.h>

#include "trainer/comm/communicator.h"
#include "trainer/comm/reduction.h"

namespace coxswain::train {
namespace {

// Values of very different sizes: any other order of additions gives other bits.
std::vector<float> shard_values(int shard) {
  return {1e8F / static_cast<float>(shard + 1), -3.7F * static_cast<float>(shard), 1e-3F};
}

void add_shard(PartSums& sums, int shard) {
  std::vector<float> values = shard_values(shard);
  sums.add_shard(values);
}

float sum_by_halving(int first, int last, std::size_t element) {
  if (last - first == 1) return shard_values(first)[element];
  const int middle = (first + last) / 2;
  return sum_by_halving(first, middle, element) + sum_by_halving(middle, last, element);
}

TEST(PartSums, and_the_owner_together_add_by_halving_for_every_world_size) {
  constexpr int kShards = 8;
  for (int world_size = 1; world_size <= kShards; ++world_size) {
    std::vector<std::vector<float>> parts;
    for (int rank = 0; rank < world_size; ++rank) {
      tensor::HostMemory memory;
      PartSums sums(memory, 3);
      for (const auto& range : comm::parts_of(kShards, world_size, rank)) {
        for (int shard = range.first; shard < range.last; ++shard) add_shard(sums, shard);
        sums.finish_part();
      }
      for (std::size_t i = 0; i < sums.size(); ++i) {
        parts.push_back(memory.snapshot(sums.part(i))());
      }
    }
    const comm::ReductionPlan plan = comm::halving_tree(kShards, world_size);
    ASSERT_EQ(static_cast<int>(parts.size()), plan.total_parts());
    for (const auto& step : plan.adds) {
      tensor::HostMemory().add(parts[static_cast<std::size_t>(step.into)],
                               parts[static_cast<std::size_t>(step.from)]);
    }
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(parts[0][i], sum_by_halving(0, kShards, i))
          << world_size << " ranks, element " << i;
    }
  }
}

TEST(PartSums, reuse_their_buffers) {
  tensor::HostMemory memory;
  PartSums sums(memory, 3);
  for (int step = 0; step < 2; ++step) {
    sums.clear();
    add_shard(sums, step);
    sums.finish_part();
    EXPECT_EQ(sums.size(), 1U);
    EXPECT_EQ(memory.snapshot(sums.part(0))()[0], shard_values(step)[0]);
  }
}

}  // namespace
}  // namespace coxswain::train
