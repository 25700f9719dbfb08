#include "trainer/train/step_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace coxswain::train {
namespace {

data::EpochOrder order(std::int64_t size, std::int64_t batch, int world_size) {
  return {{.dataset_size = size, .global_batch = batch, .world_size = world_size, .seed = 7}, 0};
}

std::vector<std::int64_t> all_ids(const StepCut& cut, const data::EpochOrder& epoch,
                                  std::int64_t step) {
  std::vector<std::int64_t> ids;
  for (int rank = 0; rank < cut.world_size; ++rank) {
    for (const MicroBatch& micro : plan_step(cut, epoch, step, rank).micro_batches) {
      ids.insert(ids.end(), micro.sample_ids.begin(), micro.sample_ids.end());
    }
  }
  return ids;
}

TEST(StepPlan, gives_every_row_of_a_step_to_exactly_one_rank_whatever_the_cut) {
  const std::vector<StepCut> cuts = {{1, 0, 1}, {2, 0, 1}, {3, 0, 2},
                                     {1, 8, 1}, {3, 8, 1}, {4, 8, 2}};
  for (const StepCut& cut : cuts) {
    const data::EpochOrder epoch = order(100, 24, cut.world_size);
    const data::EpochOrder alone = order(100, 24, 1);
    for (std::int64_t step = 0; step < epoch.steps(); ++step) {
      EXPECT_EQ(all_ids(cut, epoch, step), all_ids({1, 0, 1}, alone, step))
          << cut.world_size << " ranks, " << cut.virtual_shards << " shards, step " << step;
    }
  }
}

TEST(StepPlan, knows_the_sample_before_each_whatever_the_cut) {
  const std::vector<StepCut> cuts = {{1, 0, 1}, {3, 0, 2}, {4, 8, 2}, {30, 0, 1}, {1, 0, 40}};
  for (const StepCut& cut : cuts) {
    const data::EpochOrder epoch = order(100, 24, cut.world_size);
    for (std::int64_t step = 0; step < epoch.steps(); ++step) {
      std::int64_t before = all_ids(cut, epoch, step).back();
      for (int rank = 0; rank < cut.world_size; ++rank) {
        for (const MicroBatch& micro : plan_step(cut, epoch, step, rank).micro_batches) {
          if (micro.sample_ids.empty()) continue;
          EXPECT_EQ(micro.before, before)
              << cut.world_size << " ranks, " << cut.accumulate << " parts, rank " << rank;
          before = micro.sample_ids.back();
        }
      }
    }
  }
}

TEST(StepPlan, counts_the_batches_whose_statistics_are_summed) {
  struct Row {
    StepCut cut;
    std::int64_t rows;
    std::int64_t parts;
  };
  for (const Row& row : std::vector<Row>{{{2, 0, 1}, 8, 2},   // one batch a rank
                                         {{2, 0, 2}, 8, 4},   // two micro-batches a rank
                                         {{4, 0, 1}, 3, 3},   // a short step: one rank has no rows
                                         {{2, 8, 1}, 16, 8},  // one batch a shard
                                         {{3, 8, 1}, 5, 5}}) {
    const data::EpochOrder epoch = order(row.rows, row.rows, row.cut.world_size);
    for (int rank = 0; rank < row.cut.world_size; ++rank) {
      const StepPlan plan = plan_step(row.cut, epoch, 0, rank);
      EXPECT_EQ(plan.statistic_parts, row.parts);
      EXPECT_EQ(plan.global_count, row.rows);
    }
  }
}

TEST(StepPlan, brings_one_part_for_each_subtree_that_a_rank_owns) {
  const data::EpochOrder epoch = order(80, 80, 3);
  const StepPlan plan =
      plan_step({3, 8, 1}, epoch, 0, 1);  // shards 2..4: the subtrees [2, 4) and [4, 5)
  ASSERT_EQ(plan.micro_batches.size(), 3U);
  EXPECT_EQ(plan.micro_batches[0].part, 0);
  EXPECT_EQ(plan.micro_batches[0].shard, 0);
  EXPECT_EQ(plan.micro_batches[1].part, 0);
  EXPECT_EQ(plan.micro_batches[1].shard, 1);
  EXPECT_EQ(plan.micro_batches[2].part, 1);
  EXPECT_EQ(plan.micro_batches[2].shard, 0);
}

TEST(StepPlan, lists_every_batch_size_that_a_rank_meets) {
  EXPECT_EQ(batch_sizes({2, 0, 1}, order(100, 32, 2), 0), (std::vector<std::int64_t>{2, 16}));
  EXPECT_EQ(batch_sizes({1, 4, 1}, order(64, 30, 1), 0), (std::vector<std::int64_t>{1, 7, 8}));
}

}  // namespace
}  // namespace coxswain::train
