#include "trainer/comm/reduction.h"

#include <gtest/gtest.h>

#include <string>

#include "trainer/contract/error.h"

namespace coxswain::comm {
namespace {

using Adds = std::vector<ReductionPlan::Add>;

// What they make of parts that are written out as text.
void execute(const Adds& adds, std::vector<std::string>& parts) {
  for (const auto& [into, from] : adds) {
    auto& sum = parts[static_cast<std::size_t>(into)];
    sum = "(" + sum + "+" + parts[static_cast<std::size_t>(from)] + ")";
  }
}

std::string executed(const ReductionPlan& plan, std::vector<std::string> parts) {
  execute(plan.adds, parts);
  return parts[0];
}

std::string halved(int first, int last) {
  if (last - first == 1) return std::to_string(first);
  const int middle = (first + last) / 2;
  return "(" + halved(first, middle) + "+" + halved(middle, last) + ")";
}

TEST(Reduction, adds_one_part_of_each_rank_in_rank_order) {
  const ReductionPlan plan = in_rank_order(4);
  EXPECT_EQ(executed(plan, {"0", "1", "2", "3"}), "(((0+1)+2)+3)");
  EXPECT_EQ(plan.parts_of_rank, (std::vector<int>{1, 1, 1, 1}));
  EXPECT_EQ(in_rank_order(1).adds, Adds{});
}

TEST(Reduction, halving_gives_the_same_expression_for_every_world_size) {
  for (const int num_shards : {1, 2, 4, 8, 16, 64}) {
    for (int world_size = 1; world_size <= num_shards; ++world_size) {
      const ReductionPlan plan = halving_tree(num_shards, world_size);
      std::vector<std::string> parts;
      for (int rank = 0; rank < world_size; ++rank) {
        EXPECT_EQ(plan.first_part(rank), static_cast<int>(parts.size()));
        for (const ShardRange part : parts_of(num_shards, world_size, rank)) {
          parts.push_back(halved(part.first, part.last));
        }
      }
      ASSERT_EQ(plan.total_parts(), static_cast<int>(parts.size()));
      EXPECT_EQ(executed(plan, parts), halved(0, num_shards))
          << num_shards << " shards, " << world_size << " ranks";
    }
  }
}

TEST(Reduction, a_rank_brings_one_part_for_each_complete_subtree) {
  using Ranges = std::vector<ShardRange>;
  EXPECT_EQ(parts_of(8, 1, 0), (Ranges{{0, 8}}));
  EXPECT_EQ(parts_of(8, 3, 0), (Ranges{{0, 2}}));
  EXPECT_EQ(parts_of(8, 3, 1), (Ranges{{2, 4}, {4, 5}}));
  EXPECT_EQ(parts_of(8, 3, 2), (Ranges{{5, 6}, {6, 8}}));
  EXPECT_EQ(halving_tree(8, 3).parts_of_rank, (std::vector<int>{1, 2, 2}));
  EXPECT_EQ(halving_tree(8, 3).adds, (Adds{{0, 1}, {2, 3}, {2, 4}, {0, 2}}));
}

TEST(Reduction, refuses_shards_that_can_not_be_halved_or_shared) {
  EXPECT_THROW(halving_tree(6, 2), Error);
  EXPECT_THROW(halving_tree(8, 9), Error);
  EXPECT_THROW(parts_of(0, 1, 0), Error);
}

TEST(Reduction, owners_take_turns_by_blocks_of_the_flat_buffer) {
  EXPECT_EQ(owner_of(0, 3), 0);
  EXPECT_EQ(owner_of(kOwnerBlock - 1, 3), 0);
  EXPECT_EQ(owner_of(kOwnerBlock, 3), 1);
  EXPECT_EQ(owner_of(3 * kOwnerBlock, 3), 0);
}

TEST(Reduction, adds_neighbours_in_pairs) {
  EXPECT_EQ(in_pairs(1).adds, Adds{});
  EXPECT_EQ(in_pairs(2).adds, (Adds{{0, 1}}));
  EXPECT_EQ(in_pairs(3).adds, (Adds{{0, 1}, {0, 2}}));
  EXPECT_EQ(in_pairs(6).adds, (Adds{{0, 1}, {2, 3}, {4, 5}, {0, 2}, {0, 4}}));
  for (const int size : {1, 2, 4, 8, 16}) EXPECT_EQ(in_pairs(size).adds.size() + 1, size);
}

TEST(Reduction, machines_add_their_own_parts_first) {
  const MachinePlan pairs = by_machine(in_pairs(6), {0, 0, 1, 1, 2, 2});
  ASSERT_EQ(pairs.machines.size(), 3);
  EXPECT_EQ(pairs.machines[1].adds, (Adds{{2, 3}}));
  EXPECT_EQ(pairs.machines[1].left, std::vector<int>{2});
  EXPECT_EQ(pairs.adds, (Adds{{0, 2}, {0, 4}}));
  // 1 + 2 is no sum of this order, nor 2 + 3 once 1 was added to 0.
  const MachinePlan apart = by_machine(in_rank_order(4), {0, 1, 1, 1});
  EXPECT_EQ(apart.machines[1].adds, Adds{});
  EXPECT_EQ(apart.machines[1].left, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(apart.adds, in_rank_order(4).adds);
  const MachinePlan tree = by_machine(halving_tree(8, 3), {0, 1, 1});
  EXPECT_EQ(tree.machines[1].adds, (Adds{{2, 3}, {2, 4}}));
  EXPECT_EQ(tree.machines[1].left, (std::vector<int>{1, 2}));
}

TEST(Reduction, machines_change_no_order) {
  for (const std::vector<int>& machines :
       {std::vector<int>{0, 0, 0, 1, 1, 1, 1}, {0, 1, 2, 3, 4, 5, 6}, {0, 1, 0, 1, 0, 1, 0}}) {
    for (const ReductionPlan& plan : {in_pairs(7), in_rank_order(7), halving_tree(16, 7)}) {
      std::vector<std::string> names;
      for (int part = 0; part < plan.total_parts(); ++part) names.push_back(std::to_string(part));
      const MachinePlan split = by_machine(plan, machines);
      std::vector<std::string> parts = names;
      for (const auto& machine : split.machines) execute(machine.adds, parts);
      execute(split.adds, parts);
      EXPECT_EQ(parts[0], executed(plan, names));
    }
  }
}

}  // namespace
}  // namespace coxswain::comm
