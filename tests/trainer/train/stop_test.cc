#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/trainer/train/checkpoint_helper.h"
#include "tests/trainer/train/training_fixture.h"

namespace coxswain::train {
namespace {

std::uint64_t seed() {
  return test::flags().seed_given ? test::flags().seed : std::random_device{}();
}

TEST(Stop, of_any_one_rank_makes_all_leave_after_the_same_step) {
  const std::uint64_t random_seed = seed();
  SCOPED_TRACE(fmt::format("--seed {}", random_seed));
  std::mt19937_64 random(random_seed);
  const World world = {.size = 3,
                       .training = &small_images(),
                       .test = &small_test_images(),
                       .on_rank_0_alone = true};
  const Outcome undisturbed = run(mlp_options(), world);
  for (int rank = 0; rank < world.size; ++rank) {
    const auto step = static_cast<std::int64_t>(1 + random() % 23);
    SCOPED_TRACE(fmt::format("rank {} is asked in step {}", rank, step));
    const CheckpointDirectory directory;
    TrainOptions options = mlp_options();
    options.checkpoint.directory = directory.path();
    World stopped = world;
    stopped.hooks = stop_after(rank, step - 1);
    for (const Outcome& outcome : run_ranks(options, stopped)) {
      EXPECT_EQ(outcome.result, Result::kSaved);
      EXPECT_EQ(outcome.updates, step);
    }
    EXPECT_EQ(saved_in(directory.path()),
              std::set<std::string>{fmt::format("step-{:08}.g1", step)});
    EXPECT_EQ(difference(run(options, world).weights, undisturbed.weights), "");
  }
}

TEST(Stop, in_the_last_step_is_a_run_that_succeeded) {
  const CheckpointDirectory directory;
  TrainOptions options = mlp_options();
  options.checkpoint.directory = directory.path();
  const Outcome outcome = run(options, {.size = 2,
                                        .training = &small_images(),
                                        .test = &small_test_images(),
                                        .hooks = stop_after(1, 23)});
  EXPECT_EQ(outcome.result, Result::kSucceeded);
  EXPECT_TRUE(outcome.told.finished.at(0).accuracy.has_value());
  EXPECT_TRUE(newest(directory.path()).state.finished);
}

// The epoch is over, but nothing of the stop's time is spent on evaluating it.
TEST(Stop, in_the_last_step_of_an_epoch_leaves_its_evaluation_to_the_next_start) {
  const CheckpointDirectory directory;
  TrainOptions options = mlp_options();
  options.checkpoint.directory = directory.path();
  World world = {.size = 2, .training = &small_images(), .test = &small_test_images()};
  World stopped = world;
  stopped.hooks = stop_after(1, 7);
  const Outcome first = run(options, stopped);
  EXPECT_EQ(first.result, Result::kSaved);
  EXPECT_TRUE(first.told.epochs.empty());
  const Outcome second = run(options, world);
  ASSERT_EQ(second.told.epochs.size(), 3U);
  EXPECT_EQ(second.told.epochs[0].epoch, 1);
  EXPECT_TRUE(second.told.epochs[0].evaluated);
}

TEST(Stop, without_a_checkpoint_directory_leaves_all_the_same) {
  const Outcome outcome =
      run(mlp_options(), {.size = 2, .training = &small_images(), .hooks = stop_after(0, 4)});
  EXPECT_EQ(outcome.result, Result::kSaved);
  EXPECT_EQ(outcome.told.finished.at(0).result, "Saved");
  EXPECT_EQ(outcome.told.finished.at(0).checkpoint, "");
}

}  // namespace
}  // namespace coxswain::train
