#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "tests/trainer/train/checkpoint_helper.h"
#include "tests/trainer/train/training_fixture.h"
#include "trainer/checkpoint/publisher.h"

namespace coxswain::train {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
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

// Checksums hold, but no run of ours leaves such numbers.
TEST_F(SecondStart, more_rolled_over_than_there_was_changes_nothing) {
  const Outcome whole = run(options_, world_);
  const CheckpointDirectory other;
  options_.checkpoint.directory = other.path();
  World stopped = world_;
  stopped.hooks = stop_after(1, 3);
  EXPECT_EQ(run(options_, stopped).result, Result::kSaved);
  checkpoint::Contents contents = newest(other.path());
  contents.state.rolled_over = 4'000'000'000;
  checkpoint::PosixFileSystem files;
  checkpoint::Publisher(files, other.path(), 3).publish(contents);

  const Outcome resumed = run(options_, world_);

  EXPECT_EQ(resumed.told.started[0].total_steps, 24);
  EXPECT_EQ(difference(resumed.weights, whole.weights), "");
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

// The first attempt died before it could mark the run as its own: what is there is of other jobs.
TEST_F(SecondStart, without_resume_takes_up_no_other_jobs_run_in_a_later_attempt) {
  options_.checkpoint.resume = false;
  options_.job_uid = "one";
  run(options_, world_);
  options_.job_uid = "two";
  options_.attempt = 1;
  World stopped = world_;
  stopped.hooks = stop_after(1, 3);
  const Outcome begun = run(options_, stopped);
  EXPECT_EQ(begun.told.started[0].first_step, 0);
  EXPECT_EQ(begun.updates, 4);
  options_.attempt = 2;
  EXPECT_EQ(run(options_, world_).told.started[0].first_step, 4);
  options_.job_uid = "one";  // is not resumed, nor is its run
  EXPECT_EQ(run(options_, stopped).told.started[0].first_step, 0);
}

// 8 steps an epoch; every checkpoint of an epoch's end is taken before its evaluation.
TEST_F(SecondStart, from_a_named_checkpoint_is_a_run_of_its_own) {
  options_.checkpoint.every_epochs = 1;
  options_.checkpoint.keep = 2;
  options_.checkpoint.keep_epochs = 0;
  const Outcome whole = run(options_, world_);
  const Names all = {"step-00000008.g1", "step-00000016.g1", "step-00000024.g1"};
  EXPECT_EQ(saved_in(directory_.path()), all);

  options_.checkpoint.from_epoch = 1;
  World stopped = world_;
  stopped.hooks = stop_after(1, 3);
  const Outcome first = run(options_, stopped);
  EXPECT_EQ(first.told.started[0].first_step, 8);
  EXPECT_EQ(first.told.started[0].resumed_from, (directory_.path() / "step-00000008.g1").string());
  options_.attempt = 1;
  const Outcome restarted = run(options_, world_);
  EXPECT_EQ(restarted.told.started[0].first_step, 12);
  EXPECT_EQ(difference(restarted.weights, whole.weights), "");
  for (const std::string& name : all)
    EXPECT_TRUE(saved_in(directory_.path()).contains(name)) << name;

  options_.attempt = 0;
  options_.checkpoint.from_epoch.reset();
  options_.checkpoint.from_step = 16;
  EXPECT_EQ(run(options_, world_).told.started[0].first_step, 16);
  options_.checkpoint.from_step.reset();
  options_.checkpoint.from_path = directory_.path() / "step-00000008.g1";
  EXPECT_EQ(run(options_, world_).told.started[0].first_step, 8);
}

TEST_F(SecondStart, from_a_checkpoint_that_is_not_there_is_refused) {
  run(options_, world_);
  options_.checkpoint.from_epoch = 2;
  World alone = world_;
  alone.size = 1;
  const auto outcomes = run_ranks(options_, alone);
  EXPECT_EQ(outcomes[0].code, ExitCode::kBadInput);
  EXPECT_THAT(outcomes[0].error, HasSubstr("holds no whole checkpoint of the end of epoch 2"));
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

// A run whose checkpoints were taken away does not begin anew unasked.
TEST_F(SecondStart, is_refused_where_all_that_was_saved_is_gone) {
  World stopped = world_;
  stopped.hooks = stop_after(0, 4);
  run(options_, stopped);
  std::filesystem::remove_all(directory_.path() / "step-00000005.g1");
  options_.attempt = 1;
  World alone = world_;
  alone.size = 1;
  const auto outcomes = run_ranks(options_, alone);
  EXPECT_EQ(outcomes[0].code, ExitCode::kBadInput);
  EXPECT_THAT(outcomes[0].error,
              HasSubstr("LATEST names step-00000005.g1, and no checkpoint is there any more"));
  std::filesystem::remove(directory_.path() / "LATEST");
  EXPECT_EQ(run(options_, world_).told.started[0].first_step, 0);
}

TEST_F(SecondStart, without_resume_begins_anew_where_all_that_was_saved_is_gone) {
  run(options_, world_);
  std::filesystem::remove_all(directory_.path() / "step-00000024.g1");
  options_.checkpoint.resume = false;
  EXPECT_EQ(run(options_, world_).told.started[0].first_step, 0);
}

TEST_F(SecondStart, says_that_the_newest_checkpoint_is_gone) {
  for (const std::int64_t step : {5, 9}) {
    World stopped = world_;
    stopped.hooks = stop_after(0, step == 5 ? 4 : 3);
    run(options_, stopped);
  }
  std::filesystem::remove_all(directory_.path() / "step-00000009.g2");
  const Outcome resumed = run(options_, world_);
  EXPECT_EQ(resumed.told.started[0].first_step, 5);
  EXPECT_THAT(resumed.told.notes(),
              HasSubstr("passed over step-00000009.g2: gone, though LATEST names it"));
}

TEST_F(SecondStart, says_that_a_later_attempt_finds_nothing_saved) {
  const std::string note = "attempt 1 finds no checkpoint of this run in ";
  EXPECT_THAT(run(options_, world_).told.notes(), Not(HasSubstr(note)));
  const CheckpointDirectory other;
  options_.checkpoint.directory = other.path();
  options_.attempt = 1;
  EXPECT_THAT(run(options_, world_).told.notes(), HasSubstr(note));
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
  options_.model = Model::kKerasCnn;
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

TEST_F(SecondStart, on_other_data_is_told_and_with_other_classes_refused) {
  World stopped = world_;
  stopped.hooks = stop_after(0, 2);
  run(options_, stopped);
  const auto other = data::make_synthetic({1, 1, 6, 6}, 4, 60, 9);
  World elsewhere = {.size = 2, .training = other.get(), .hooks = stop_after(0, 2)};
  EXPECT_THAT(run(options_, elsewhere).told.notes(),
              HasSubstr("the training set is another one: labels was"));
  const auto five = data::make_synthetic({1, 1, 6, 6}, 5, 60, 9);
  for (const Outcome& outcome : run_ranks(options_, {.size = 2, .training = five.get()})) {
    EXPECT_EQ(outcome.code, ExitCode::kBadInput);
    EXPECT_THAT(outcome.error, HasSubstr("had 4 classes when it was saved and has 5 now"));
  }
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

// How often each sample of each epoch is trained on.
using Uses = std::map<std::int64_t, std::map<std::int64_t, int>>;

World counting(World world, Uses& uses) {
  world.hooks = [&uses, hooks = world.hooks](int rank, std::atomic<bool>& stop,
                                             test::ThreadNetwork& network) {
    Hooks all = hooks ? hooks(rank, stop, network) : Hooks{};
    all.before_pass = [&uses](std::int64_t, const backend::Batch& batch) {
      for (const std::int64_t id : batch.sample_ids) ++uses[batch.epoch][id];
    };
    return all;
  };
  return world;
}

// 60 images, left after 11 steps of 8: 8 in the first epoch, 3 in the second.
TEST_F(SecondStart, with_another_batch_trains_on_the_samples_that_are_left) {
  for (const std::int64_t batch : {3, 7, 16, 60}) {
    SCOPED_TRACE(batch);
    const CheckpointDirectory directory;
    options_ = mlp_options();
    options_.checkpoint.directory = directory.path();
    options_.trajectory = {{"batchSize", "8"}};
    Uses uses;
    World world = {.size = 1, .training = &small_images(), .test = &small_test_images()};
    World stopped = world;
    stopped.hooks = stop_after(0, 10);
    EXPECT_EQ(run(options_, counting(stopped, uses)).result, Result::kSaved);

    options_.batch_size = batch;
    options_.trajectory = {{"batchSize", std::to_string(batch)}};
    const Outcome resumed = run(options_, counting(world, uses));
    EXPECT_EQ(resumed.result, Result::kSucceeded);
    EXPECT_EQ(resumed.told.finished.at(0).epochs, 3);
    const std::int64_t left = (36 + batch - 1) / batch + (60 + batch - 1) / batch;
    EXPECT_EQ(resumed.updates, left);
    EXPECT_EQ(resumed.told.started.at(0).total_steps, 11 + left);
    EXPECT_EQ(resumed.told.finished.at(0).steps, 11 + left);
    ASSERT_EQ(uses.size(), 3U);
    for (const auto& [epoch, samples] : uses) {
      EXPECT_EQ(samples.size(), 60U) << "epoch " << epoch;
      for (const auto& [id, times] : samples) EXPECT_EQ(times, 1) << id << " in epoch " << epoch;
    }
    EXPECT_TRUE(newest(directory.path()).state.finished);
  }
}

// The cosine ends where the epochs do, and does not jump where the batch changes.
TEST_F(SecondStart, with_another_batch_goes_on_at_the_same_place_of_the_schedule) {
  options_.schedule.kind = ScheduleKind::kCosine;
  options_.schedule.min_lr = 0.001F;
  options_.batch_size = 6;  // 10 steps an epoch
  World stopped = world_;
  stopped.hooks = stop_after(0, 15);
  const Outcome first = run(options_, stopped);
  options_.batch_size = 12;  // 5
  options_.trajectory["batchSize"] = "12";
  const Outcome second = run(options_, world_);
  const auto lr_at = [&](std::int64_t step, std::int64_t steps) {
    return static_cast<double>(optim::learning_rate(options_.schedule, step, steps, steps / 3).lr);
  };
  EXPECT_EQ(first.told.steps.back().lr, lr_at(15, 30));
  EXPECT_EQ(second.told.steps.front().lr, lr_at(8, 15));
  EXPECT_EQ(second.told.steps.back().lr, lr_at(15, 15));
  EXPECT_EQ(second.updates, 7);
}

// `steps` counts updates, whatever the size of each.
TEST_F(SecondStart, with_another_batch_ends_after_as_many_steps_as_are_asked_for) {
  options_.epochs.reset();
  options_.steps = 20;
  World stopped = world_;
  stopped.hooks = stop_after(0, 4);
  run(options_, stopped);
  options_.batch_size = 16;
  options_.trajectory["batchSize"] = "16";
  const Outcome second = run(options_, world_);
  EXPECT_EQ(second.told.started.at(0).global_batch, 16);
  EXPECT_EQ(second.updates, 15);
  EXPECT_EQ(second.told.finished.at(0).steps, 20);
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
