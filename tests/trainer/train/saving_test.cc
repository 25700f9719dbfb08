#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <fstream>
#include <mutex>
#include <thread>

#include "tests/trainer/train/checkpoint_helper.h"
#include "tests/trainer/train/training_fixture.h"
#include "trainer/train/saver.h"

namespace coxswain::train {
namespace {

using ::testing::HasSubstr;

// Holds back whatever waits until an update was made, at most for a while.
class Gate {
 public:
  void reached(std::int64_t update) {
    const std::lock_guard lock(mutex_);
    reached_ = update;
    changed_.notify_all();
  }
  void await(std::int64_t update) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20), [&] { return reached_ >= update; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t reached_ = 0;
};

// The saver reads no tensor before training went on by several updates.
TEST(Saving, takes_the_state_of_its_step_though_training_goes_on) {
  TrainOptions options = mlp_options();
  options.model = Model::kCifarResnet8;
  options.batch_size = 4;
  const auto images = data::make_synthetic({1, 1, 6, 6}, 4, 40, 7);
  World world = {.size = 1, .training = images.get()};
  options.epochs = 1;

  const CheckpointDirectory stopped_directory;
  options.checkpoint.directory = stopped_directory.path();
  World stopped = world;
  stopped.hooks = stop_after(0, 4);
  run(options, stopped);

  const CheckpointDirectory directory;
  options.checkpoint.directory = directory.path();
  options.checkpoint.every_steps = 5;
  Gate gate;
  world.hooks = [&gate](int, std::atomic<bool>&, test::ThreadNetwork&) {
    Hooks hooks;
    hooks.after_update = [&gate](std::int64_t update, backend::Parameters&) {
      gate.reached(update);
    };
    hooks.on_to_canonical = [&gate, training = std::this_thread::get_id()] {
      if (std::this_thread::get_id() != training) gate.await(9);
    };
    return hooks;
  };
  const Outcome outcome = run(options, world);
  ASSERT_EQ(outcome.updates, 10);
  expect_equal(checkpoint::load(directory.path() / "step-00000005.g1"),
               checkpoint::load(stopped_directory.path() / "step-00000005.g1"));
}

// Whoever is to end the process waits for it at the gate.
TEST(Saving, keeps_the_gate_closed_until_it_is_over) {
  constexpr auto kNow = std::chrono::nanoseconds(0);
  constexpr auto kLong = std::chrono::seconds(20);
  const CheckpointDirectory directory;
  CheckpointOptions options;
  options.directory = directory.path();
  SaveGate gate;
  Told told;
  Recorder recorder(told);
  Saver saver(options, std::nullopt, gate, recorder, std::chrono::steady_clock::now);
  EXPECT_TRUE(gate.wait(kNow));
  for (const bool now : {false, true}) {
    Gate writing;
    const auto contents = [&] {
      writing.await(1);
      return checkpoint::Contents{};
    };
    std::jthread saving;
    if (now) {
      saving = std::jthread([&] { saver.save_now(contents); });
      while (gate.wait(kNow)) std::this_thread::yield();
    } else {
      saver.start(contents);
    }
    EXPECT_FALSE(gate.wait(kNow));
    writing.reached(1);
    EXPECT_TRUE(gate.wait(kLong));
    EXPECT_EQ(saved_in(directory.path()).size(), now ? 2U : 1U);
  }
}

TEST(Saving, is_told_and_leaves_the_newest_checkpoint_in_the_summary) {
  const CheckpointDirectory directory;
  TrainOptions options = mlp_options();
  options.checkpoint.directory = directory.path();
  const Outcome outcome = run(options, {.size = 2, .training = &small_images()});
  ASSERT_EQ(outcome.told.saves.size(), 1U);
  const CheckpointReport& report = outcome.told.saves[0];
  EXPECT_EQ(report.step, 24);
  EXPECT_EQ(report.path, (directory.path() / "step-00000024.g1").string());
  EXPECT_EQ(report.error, "");
  std::int64_t bytes = 0;
  for (const auto& file : std::filesystem::directory_iterator(report.path)) {
    bytes += static_cast<std::int64_t>(file.file_size());
  }
  EXPECT_EQ(report.bytes, bytes);
  EXPECT_EQ(outcome.told.finished.at(0).checkpoint, report.path);
}

TEST(Saving, keeps_the_newest_few) {
  const CheckpointDirectory directory;
  TrainOptions options = mlp_options();
  options.checkpoint.directory = directory.path();
  options.checkpoint.keep = 2;
  for (const std::int64_t stop : {2, 3, 4}) {
    run(options, {.size = 1, .training = &small_images(), .hooks = stop_after(0, stop)});
  }
  EXPECT_EQ(saved_in(directory.path()),
            (std::set<std::string>{"step-00000007.g2", "step-00000012.g3"}));
}

// The last of all is the end's own.
TEST(Saving, at_the_end_of_every_nth_epoch) {
  const Outcome undisturbed = run(mlp_options(), {.size = 2, .training = &small_images()});
  for (const std::int64_t every : {1, 2}) {
    const CheckpointDirectory directory;
    TrainOptions options = mlp_options();
    options.checkpoint.directory = directory.path();
    options.checkpoint.every_epochs = every;
    options.checkpoint.keep = 100;
    const World world = {.size = 2, .training = &small_images()};
    run(options, world);
    std::set<std::string> expected;
    const std::int64_t steps = undisturbed.updates / *options.epochs;
    for (std::int64_t epoch = every; epoch < *options.epochs; epoch += every)
      expected.insert(fmt::format("step-{:08}.g1", epoch * steps));
    expected.insert(fmt::format("step-{:08}.g1", undisturbed.updates));
    EXPECT_EQ(saved_in(directory.path()), expected);
    for (auto last = std::next(expected.begin()); last != expected.end(); ++last)
      std::filesystem::remove_all(directory.path() / *last);
    EXPECT_EQ(difference(run(options, world).weights, undisturbed.weights), "") << every;
  }
}

// The rate is nearly none: only the first evaluation is better than all before it.
TEST(Saving, keeps_the_best_epoch_and_names_it) {
  const CheckpointDirectory directory;
  TrainOptions options = mlp_options();
  options.schedule.lr = 1e-12F;
  options.checkpoint.directory = directory.path();
  options.checkpoint.keep = 1;
  options.checkpoint.every_epochs = 1;
  options.checkpoint.best = KeptBest::kAccuracy;
  const World world{.size = 2, .training = &small_images(), .test = &small_test_images()};
  const Outcome outcome = run(options, world);
  EXPECT_EQ(saved_in(directory.path()),
            (std::set<std::string>{"step-00000008.g1.r2", "step-00000024.g1"}));
  std::string best;
  std::getline(std::ifstream(directory.path() / "BEST") >> std::ws, best);
  EXPECT_EQ(best, "step-00000008.g1.r2");
  const checkpoint::State state = checkpoint::load(directory.path() / best).state;
  EXPECT_EQ(state.epoch, 1);
  EXPECT_EQ(state.best_accuracy, outcome.told.epochs.at(0).accuracy);
}

TEST(EarlyStopping, ends_a_training_alike_on_all_ranks_and_says_why) {
  TrainOptions options = mlp_options();
  options.epochs = 50;
  options.schedule.lr = 1e-12F;
  options.early_stopping.patience = 3;
  const World world{.size = 2, .training = &small_images(), .test = &small_test_images()};
  const CheckpointDirectory directory;
  options.checkpoint.directory = directory.path();
  const Outcome outcome = run(options, world);
  EXPECT_EQ(outcome.result, Result::kSucceeded);
  EXPECT_EQ(outcome.told.epochs.size(), 4U);
  ASSERT_EQ(outcome.told.warnings.size(), 1U);
  EXPECT_THAT(outcome.told.warnings[0], HasSubstr("stopped early: no better accuracy than"));
  EXPECT_THAT(outcome.told.warnings[0], HasSubstr("of epoch 1 in 3 evaluations"));
  const Outcome again = run(options, world);
  EXPECT_EQ(again.updates, 0);
  EXPECT_THAT(again.told.notes(), HasSubstr("already stopped early"));
  options.early_stopping.patience = 5;
  EXPECT_EQ(run(options, world).told.epochs.size(), 2U);
}

// Stopped within every epoch, it counts as undisturbed training does.
TEST(EarlyStopping, counts_over_resumes) {
  TrainOptions options = mlp_options();
  options.epochs = 50;
  options.schedule.lr = 1e-12F;
  options.early_stopping = {WatchedMetric::kLoss, 2};
  World world{.size = 2, .training = &small_images(), .test = &small_test_images()};
  const Outcome undisturbed = run(options, world);
  const CheckpointDirectory directory;
  options.checkpoint.directory = directory.path();
  std::int64_t updates = 0;
  world.hooks = stop_after(1, 3);
  for (;;) {
    const Outcome part = run(options, world);
    updates += part.updates;
    if (part.result == Result::kSucceeded) break;
    ASSERT_LT(updates, 400);
  }
  EXPECT_EQ(updates, undisturbed.updates);
}

// A save by steps is under way, and slow, when the epoch ends.
TEST(Saving, at_the_end_of_an_epoch_waits_for_a_save_under_way) {
  const CheckpointDirectory directory;
  CheckpointOptions options;
  options.directory = directory.path();
  options.every_epochs = 1;
  SaveGate gate;
  Told told;
  Recorder recorder(told);
  Saver saver(options, std::nullopt, gate, recorder, std::chrono::steady_clock::now);
  Gate writing;
  saver.start([&] {
    writing.await(1);
    return checkpoint::Contents{};
  });
  saver.start([] { return checkpoint::Contents{}; });  // skipped
  writing.reached(1);
  saver.wait();
  saver.start([] { return checkpoint::Contents{}; });
  saver.wait();
  EXPECT_EQ(saved_in(directory.path()).size(), 2U);
}

TEST(Saving, where_there_can_be_no_directory_ends_with_65_at_the_start) {
  const CheckpointDirectory directory;
  std::ofstream(directory.path() / "file") << "not a directory";
  TrainOptions options = mlp_options();
  options.checkpoint.directory = directory.path() / "file" / "checkpoints";
  const auto outcomes = run_ranks(options, {.size = 1, .training = &small_images()});
  EXPECT_EQ(outcomes[0].code, ExitCode::kBadInput);
  EXPECT_THAT(outcomes[0].error, HasSubstr((directory.path() / "file").string()));
  EXPECT_EQ(outcomes[0].updates, 0);
}

// The checkpoint directory is gone from the third update on.
World losing(const std::filesystem::path& directory) {
  World world = {.size = 1, .training = &small_images()};
  world.hooks = [directory](int, std::atomic<bool>&, test::ThreadNetwork&) {
    Hooks hooks;
    hooks.after_update = [directory](std::int64_t update, backend::Parameters&) {
      if (update == 3) std::filesystem::remove_all(directory);
    };
    return hooks;
  };
  return world;
}

TEST(Saving, to_a_volume_that_is_gone_ends_with_74_at_the_last_save) {
  const CheckpointDirectory parent;
  TrainOptions options = mlp_options();
  options.checkpoint.directory = parent.path() / "checkpoints";
  const auto outcomes = run_ranks(options, losing(options.checkpoint.directory));
  EXPECT_EQ(outcomes[0].code, ExitCode::kVolume);
  EXPECT_THAT(outcomes[0].error, ::testing::EndsWith("checkpoints is gone"));
  EXPECT_EQ(outcomes[0].updates, 24);
  ASSERT_EQ(outcomes[0].told.saves.size(), 1U);
  EXPECT_NE(outcomes[0].told.saves[0].error, "");
}

TEST(Saving, that_fails_too_often_in_a_row_ends_training_early) {
  const CheckpointDirectory parent;
  TrainOptions options = mlp_options();
  options.epochs = 2'000;  // far more than are trained
  options.checkpoint.directory = parent.path() / "checkpoints";
  options.checkpoint.every_steps = 4;
  options.checkpoint.max_failures = 2;
  const auto outcomes = run_ranks(options, losing(options.checkpoint.directory));
  EXPECT_EQ(outcomes[0].code, ExitCode::kVolume);
  EXPECT_THAT(outcomes[0].error, HasSubstr("2 saves failed in a row"));
  EXPECT_LT(outcomes[0].updates, 16'000);
  ASSERT_EQ(outcomes[0].told.saves.size(), 1U);  // the first failure is told, the second thrown
  EXPECT_NE(outcomes[0].told.saves[0].error, "");
}

// The last update's loss and gradients were finite, its weights are not.
TEST(Saving, of_weights_that_are_not_finite_ends_with_76) {
  const CheckpointDirectory directory;
  TrainOptions options = mlp_options();
  options.checkpoint.directory = directory.path();
  options.steps = 1;
  options.schedule.lr = 3e38F;
  options.schedule.momentum = 0;
  options.rule.weight_decay = 100;
  const auto outcomes = run_ranks(options, {.size = 1, .training = &small_images()});
  EXPECT_EQ(outcomes[0].code, ExitCode::kNotFinite);
  EXPECT_EQ(outcomes[0].updates, 1);
  EXPECT_EQ(saved_in(directory.path()), std::set<std::string>());
}

TEST(Saving, is_given_up_with_71_when_a_newer_attempt_has_come) {
  const CheckpointDirectory directory;
  TrainOptions options = mlp_options();
  options.checkpoint.directory = directory.path();
  World world = {.size = 1, .training = &small_images()};
  world.hooks = [&](int, std::atomic<bool>&, test::ThreadNetwork&) {
    Hooks hooks;
    hooks.after_update = [&](std::int64_t update, backend::Parameters&) {
      if (update == 3) std::filesystem::create_directory(directory.path() / ".generation-7");
    };
    return hooks;
  };
  const auto outcomes = run_ranks(options, world);
  EXPECT_EQ(outcomes[0].code, ExitCode::kPeerLost);
  EXPECT_EQ(saved_in(directory.path()), std::set<std::string>());
}

}  // namespace
}  // namespace coxswain::train
