#include <gtest/gtest.h>

#include <cmath>

#include "tests/trainer/train/training_fixture.h"

namespace coxswain::train {
namespace {

const World& two_ranks() {
  static const World world = {.size = 2, .training = &small_images(), .test = &small_test_images()};
  return world;
}

TEST(Observer, is_told_what_is_known_before_the_first_step) {
  TrainOptions options = mlp_options();
  options.threads = 3;
  const Outcome outcome = run(options, two_ranks());
  ASSERT_EQ(outcome.told.started.size(), 1U);
  const RunInfo& info = outcome.told.started[0];
  EXPECT_EQ(info.model, "mlp");
  EXPECT_EQ(info.parameters, 36 * 128 + 128 + 128 * 64 + 64 + 64 * 4 + 4);
  EXPECT_EQ(info.multiply_accumulates, 36 * 128 + 128 * 64 + 64 * 4);
  EXPECT_EQ(info.rank, 0);
  EXPECT_EQ(info.world_size, 2);
  EXPECT_EQ(info.threads, 3);
  EXPECT_EQ(info.training_samples, 60);
  EXPECT_EQ(info.test_samples, 23);
  EXPECT_EQ(info.epochs, 3);
  EXPECT_EQ(info.steps_per_epoch, 8);
  EXPECT_EQ(info.total_steps, 24);
  EXPECT_EQ(info.global_batch, 8);
  EXPECT_EQ(info.first_step, 0);
  EXPECT_NE(info.fingerprint, "");
  EXPECT_TRUE(info.notes.empty());
}

TEST(Observer, is_told_of_every_step_or_of_every_nth) {
  TrainOptions options = mlp_options();
  const Outcome every = run(options, two_ranks());
  ASSERT_EQ(every.told.steps.size(), 24U);
  for (std::size_t i = 0; i < 24; ++i) {
    const StepReport& report = every.told.steps[i];
    EXPECT_EQ(report.step, static_cast<std::int64_t>(i) + 1);
    EXPECT_EQ(report.epoch, static_cast<std::int64_t>(i) / 8 + 1);
    EXPECT_GT(report.loss, 0);
    EXPECT_GE(report.accuracy, 0);
    EXPECT_LE(report.accuracy, 1);
  }
  EXPECT_EQ(every.told.steps.back().seconds_left, 0);

  options.report_every_steps = 10;
  const Outcome tenth = run(options, two_ranks());
  std::vector<std::int64_t> steps;
  for (const StepReport& report : tenth.told.steps) {
    // A slow machine's steps are told of each second as well.
    if (report.step == 1 || report.step % 10 == 0) steps.push_back(report.step);
  }
  EXPECT_EQ(steps, (std::vector<std::int64_t>{1, 10, 20}));
}

TEST(Observer, is_told_the_rate_that_a_step_was_made_with) {
  TrainOptions options = mlp_options();
  options.schedule.kind = ScheduleKind::kMultistep;
  options.schedule.milestones = {1, 2};
  options.schedule.gamma = 0.1F;
  const Outcome outcome = run(options, two_ranks());
  ASSERT_EQ(outcome.told.epochs.size(), 3U);
  for (int epoch = 0; epoch < 3; ++epoch) {
    const double rate = 0.05 * std::pow(0.1, epoch);
    EXPECT_NEAR(*outcome.told.epochs[static_cast<std::size_t>(epoch)].lr, rate, 1e-8);
    for (int step = 8 * epoch; step < 8 * epoch + 8; ++step)
      EXPECT_NEAR(outcome.told.steps[static_cast<std::size_t>(step)].lr, rate, 1e-8) << step;
  }
}

TEST(Observer, is_told_an_epochs_mean_over_all_its_rows) {
  const Outcome outcome = run(mlp_options(), two_ranks());
  ASSERT_EQ(outcome.told.epochs.size(), 3U);
  for (std::size_t epoch = 0; epoch < 3; ++epoch) {
    double loss = 0;
    for (std::size_t step = 0; step < 8; ++step) {
      const double rows = step == 7 ? 4 : 8;
      loss += outcome.told.steps[epoch * 8 + step].loss * rows / 60;
    }
    const EpochReport& report = outcome.told.epochs[epoch];
    EXPECT_EQ(report.epoch, static_cast<std::int64_t>(epoch) + 1);
    EXPECT_NEAR(report.training_loss, loss, 1e-6);
    EXPECT_EQ(report.training_accuracy, outcome.told.steps[epoch * 8 + 7].accuracy);
    EXPECT_TRUE(report.evaluated);
    EXPECT_GE(report.top5, report.accuracy);
    EXPECT_NEAR(report.samples_per_second * report.seconds, 60, 1e-6);
    EXPECT_GE(report.input_bound, 0);
    EXPECT_LE(report.input_bound, 1);
  }
}

TEST(Observer, is_told_of_an_evaluation_every_few_epochs_and_at_the_end) {
  TrainOptions options = mlp_options();
  options.evaluate_every_epochs = 2;
  const Outcome outcome = run(options, two_ranks());
  ASSERT_EQ(outcome.told.epochs.size(), 3U);
  EXPECT_FALSE(outcome.told.epochs[0].evaluated);
  EXPECT_TRUE(outcome.told.epochs[1].evaluated);
  EXPECT_FALSE(outcome.told.epochs[2].evaluated);
  EXPECT_TRUE(outcome.told.finished.at(0).accuracy.has_value());
}

TEST(Observer, is_told_the_end_in_line_with_the_last_epoch) {
  const Outcome outcome = run(mlp_options(), two_ranks());
  ASSERT_EQ(outcome.told.finished.size(), 1U);
  const Summary& summary = outcome.told.finished[0];
  EXPECT_EQ(summary.result, "Succeeded");
  EXPECT_EQ(summary.epochs, 3);
  EXPECT_EQ(summary.steps, 24);
  EXPECT_EQ(summary.accuracy, outcome.told.epochs.back().accuracy);
  EXPECT_EQ(summary.loss, outcome.told.epochs.back().loss);
  EXPECT_GT(summary.samples_per_second, 0);
  EXPECT_EQ(summary.checkpoint, "");
}

TEST(Observer, is_told_of_the_end_by_steps_in_mid_epoch) {
  TrainOptions options = mlp_options();
  options.steps = 11;
  const Outcome outcome = run(options, two_ranks());
  EXPECT_EQ(outcome.result, Result::kSucceeded);
  EXPECT_EQ(outcome.told.epochs.size(), 1U);
  EXPECT_EQ(outcome.told.finished.at(0).steps, 11);
  EXPECT_EQ(outcome.told.finished.at(0).epochs, 1);
  EXPECT_TRUE(outcome.told.finished.at(0).accuracy.has_value());
}

TEST(Observer, hears_no_scores_without_a_test_set) {
  const Outcome outcome = run(mlp_options(), {.size = 1, .training = &small_images()});
  EXPECT_FALSE(outcome.told.finished.at(0).accuracy.has_value());
  EXPECT_FALSE(outcome.told.finished.at(0).loss.has_value());
  for (const EpochReport& report : outcome.told.epochs) EXPECT_FALSE(report.evaluated);
}

}  // namespace
}  // namespace coxswain::train
