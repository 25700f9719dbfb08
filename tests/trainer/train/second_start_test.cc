#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/trainer/train/checkpoint_helper.h"
#include "tests/trainer/train/training_fixture.h"

namespace coxswain::train {
namespace {

using ::testing::HasSubstr;
using Names = std::set<std::string>;

// What a second start does with what a first one left.
class SecondStart : public ::testing::Test {
 protected:
  SecondStart() {
    options_.checkpoint.directory = directory_.path();
    options_.identity = {{"model", "mlp"}};
    options_.trajectory = {{"optimizer.lr", "0.05"}};
  }

  const CheckpointDirectory directory_;
  TrainOptions options_ = mlp_options();
  World world_ = {.size = 2, .training = &small_images(), .test = &small_test_images()};
};

TEST_F(SecondStart, says_that_a_finished_run_is_complete_and_changes_nothing) {
  const Outcome first = run(options_, world_);
  const Names saved = saved_in(directory_.path());
  EXPECT_EQ(saved, Names{"step-00000024.g1"});
  const Outcome second = run(options_, world_);
  EXPECT_EQ(second.result, Result::kSucceeded);
  EXPECT_EQ(second.updates, 0);
  EXPECT_THAT(second.told.notes(), HasSubstr("already complete at epoch 3; raise epochs, or "
                                             "checkpoint.resume: false"));
  EXPECT_EQ(difference(second.weights, first.weights), "");
  EXPECT_EQ(saved_in(directory_.path()), saved);
  EXPECT_TRUE(second.told.saves.empty());
  const Summary& summary = second.told.finished.at(0);
  EXPECT_EQ(summary.result, "Succeeded");
  EXPECT_EQ(summary.steps, 24);
  EXPECT_EQ(summary.accuracy, first.told.finished.at(0).accuracy);  // evaluated again
  EXPECT_EQ(summary.checkpoint, first.told.finished.at(0).checkpoint);
}

TEST_F(SecondStart, goes_on_when_epochs_are_raised) {
  run(options_, world_);
  options_.epochs = 5;
  const Outcome longer = run(options_, world_);
  EXPECT_EQ(longer.updates, 16);
  EXPECT_EQ(longer.told.epochs.front().epoch, 4);
  const CheckpointDirectory other;
  options_.checkpoint.directory = other.path();
  const Outcome at_once = run(options_, world_);
  EXPECT_EQ(difference(longer.weights, at_once.weights), "");
  expect_equal(newest(directory_.path()), newest(other.path()));
}

TEST_F(SecondStart, without_resume_trains_anew_and_deletes_nothing) {
  const Outcome first = run(options_, world_);
  options_.checkpoint.resume = false;
  options_.checkpoint.keep = 1;
  options_.steps = 5;
  const Outcome second = run(options_, world_);
  EXPECT_EQ(second.updates, 5);
  EXPECT_EQ(second.told.started[0].first_step, 0);
  EXPECT_EQ(saved_in(directory_.path()), (Names{"step-00000024.g1", "step-00000005.g2"}));
}

TEST_F(SecondStart, without_resume_goes_on_from_its_own_run_in_a_later_attempt) {
  run(options_, world_);
  options_.checkpoint.resume = false;
  World stopped = world_;
  stopped.hooks = stop_after(1, 3);
  EXPECT_EQ(run(options_, stopped).result, Result::kSaved);
  options_.attempt = 1;
  const Outcome restarted = run(options_, world_);
  EXPECT_EQ(restarted.told.started[0].first_step, 4);
  EXPECT_EQ(restarted.updates, 20);
}

TEST_F(SecondStart, takes_the_checkpoint_before_a_damaged_one_and_says_so) {
  for (const std::int64_t step : {5, 9}) {
    World stopped = world_;
    stopped.hooks = stop_after(0, step == 5 ? 4 : 3);
    run(options_, stopped);
  }
  ASSERT_EQ(saved_in(directory_.path()), (Names{"step-00000005.g1", "step-00000009.g2"}));
  std::ofstream(directory_.path() / "step-00000009.g2" / "model.safetensors",
                std::ios::in | std::ios::out)
      << "damaged";
  const Outcome resumed = run(options_, world_);
  EXPECT_EQ(resumed.told.started[0].first_step, 5);
  EXPECT_THAT(resumed.told.notes(), HasSubstr("passed over step-00000009.g2: model.safetensors"));
  const CheckpointDirectory other;
  options_.checkpoint.directory = other.path();
  EXPECT_EQ(difference(resumed.weights, run(options_, world_).weights), "");
}

TEST_F(SecondStart, is_refused_on_every_rank_when_an_identity_key_changed) {
  World stopped = world_;
  stopped.hooks = stop_after(0, 2);
  run(options_, stopped);
  options_.identity["model"] = "lenet";
  for (const Outcome& outcome : run_ranks(options_, world_)) {
    EXPECT_EQ(outcome.code, ExitCode::kBadInput);
    EXPECT_THAT(outcome.error, HasSubstr("model was mlp when it was saved and is lenet now"));
  }
  EXPECT_EQ(saved_in(directory_.path()), Names{"step-00000003.g1"});
}

TEST_F(SecondStart, is_refused_when_the_checkpoint_is_of_another_model) {
  World stopped = {.size = 1, .training = &small_images(), .hooks = stop_after(0, 2)};
  run(options_, stopped);
  options_.model = "keras-cnn";
  const auto outcomes = run_ranks(options_, {.size = 1, .training = &small_images()});
  EXPECT_EQ(outcomes[0].code, ExitCode::kBadInput);
  EXPECT_THAT(outcomes[0].error, HasSubstr("[checkpoint] tensor \""));
}

TEST_F(SecondStart, warns_of_another_learning_rate_and_goes_on) {
  World stopped = world_;
  stopped.hooks = stop_after(0, 2);
  run(options_, stopped);
  options_.trajectory["optimizer.lr"] = "0.1";
  options_.schedule.lr = 0.1F;
  const Outcome resumed = run(options_, world_);
  EXPECT_EQ(resumed.result, Result::kSucceeded);
  EXPECT_THAT(resumed.told.notes(), HasSubstr("optimizer.lr was 0.05 and is 0.1 now"));
  EXPECT_FLOAT_EQ(static_cast<float>(resumed.told.steps[0].lr), 0.1F);
}

TEST_F(SecondStart, keeps_the_global_batch_on_another_number_of_ranks) {
  options_.global_batch_size = false;  // 8 a worker
  World stopped = world_;
  stopped.hooks = stop_after(0, 2);
  run(options_, stopped);
  World larger = world_;
  larger.size = 3;
  const Outcome resumed = run(options_, larger);
  EXPECT_EQ(resumed.told.started[0].global_batch, 16);
  EXPECT_THAT(resumed.told.notes(), HasSubstr("3 ranks instead of 2: global batch 16"));
  EXPECT_EQ(resumed.told.finished[0].steps, 12);
}

// The epoch's speed is of this process, its loss of the whole epoch.
TEST_F(SecondStart, reports_the_speed_of_its_own_steps_alone) {
  World stopped = world_;
  stopped.hooks = stop_after(0, 5);
  run(options_, stopped);
  const Outcome resumed = run(options_, world_);
  const EpochReport& epoch = resumed.told.epochs.at(0);
  EXPECT_NEAR(epoch.samples_per_second * epoch.seconds, 60 - 6 * 8, 1e-6);
}

}  // namespace
}  // namespace coxswain::train
