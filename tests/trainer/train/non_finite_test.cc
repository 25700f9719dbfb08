#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <set>
#include <string>

#include "tests/trainer/train/checkpoint_helper.h"
#include "tests/trainer/train/training_fixture.h"
#include "trainer/tensor/host_span.h"

namespace coxswain::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// In these passes of one rank the loss, or the first gradient of every tensor, has this value.
struct Fault {
  int rank = 0;
  std::set<std::int64_t> passes;
  bool in_loss = false;
  float value = kNan;
};

World with(const Fault& fault, const data::Dataset& images) {
  World world = {.size = 3, .training = &images};
  world.hooks = [fault](int rank, std::atomic<bool>&, test::ThreadNetwork&) {
    Hooks hooks;
    if (rank != fault.rank) return hooks;
    if (fault.in_loss) {
      hooks.after_forward = [fault](std::int64_t pass, backend::LossSums& sums) {
        if (fault.passes.contains(pass)) sums.loss = static_cast<double>(fault.value);
      };
    } else {
      hooks.after_gradient = [fault](std::int64_t pass, backend::Parameters& buffer, int segment) {
        if (!fault.passes.contains(pass)) return;
        const auto& tensor = buffer.layout().segments[static_cast<std::size_t>(segment)];
        tensor::host_span(buffer.gradients(tensor))[0] = fault.value;
      };
    }
    return hooks;
  };
  return world;
}

bool all_finite(const std::vector<float>& values) {
  return std::ranges::all_of(values, [](float v) { return std::isfinite(v); });
}

TEST(NotFinite, on_one_rank_skips_the_step_on_all) {
  for (const bool in_loss : {true, false}) {
    for (const float value : {kNan, kInfinity, -kInfinity}) {
      for (int rank = 0; rank < 3; ++rank) {
        SCOPED_TRACE(
            fmt::format("{} in the {} of rank {}", value, in_loss ? "loss" : "gradients", rank));
        const Outcome outcome =
            run(mlp_options(), with({rank, {3}, in_loss, value}, small_images()));
        EXPECT_EQ(outcome.result, Result::kSucceeded);
        EXPECT_EQ(outcome.updates, 23);
        EXPECT_TRUE(all_finite(outcome.weights));
        EXPECT_THAT(outcome.told.warnings,
                    ElementsAre("step 3 skipped: loss or gradients are not finite"));
      }
    }
  }
}

TEST(NotFinite, changes_neither_weights_nor_running_statistics_nor_slots) {
  const auto images = data::make_synthetic({1, 1, 6, 6}, 4, 24, 7);
  TrainOptions options = mlp_options();
  options.model = Model::kCifarResnet8;
  options.steps = 2;
  const Outcome undisturbed = run(options, with({0, {}, true}, *images));
  ASSERT_EQ(undisturbed.updates, 2);
  options.steps = 3;
  const Outcome third_skipped = run_ranks(options, with({1, {3}, true}, *images))[0];
  EXPECT_EQ(third_skipped.code, ExitCode::kNotFinite);
  EXPECT_EQ(third_skipped.updates, 2);
  EXPECT_EQ(difference(third_skipped.weights, undisturbed.weights), "");
  EXPECT_EQ(difference(third_skipped.slots, undisturbed.slots), "");
}

TEST(NotFinite, steps_count_for_position_and_schedule_but_not_as_updates) {
  const CheckpointDirectory directory;
  TrainOptions options = mlp_options();
  options.rule.kind = OptimizerKind::kAdam;
  options.checkpoint.directory = directory.path();
  const Outcome outcome = run(options, with({1, {2, 3, 7}, false}, small_images()));
  EXPECT_EQ(outcome.updates, 21);
  const checkpoint::State state = newest(directory.path()).state;
  EXPECT_EQ(state.step, 24);
  EXPECT_EQ(state.update_count, 21);
  EXPECT_EQ(state.skipped_in_a_row, 0);
}

TEST(NotFinite, ends_with_76_on_every_rank_beyond_the_limit_in_a_row) {
  TrainOptions options = mlp_options();
  options.max_skipped = 2;
  // Two, then two again: each within the limit.
  EXPECT_EQ(run(options, with({1, {2, 3, 5, 6}, true}, small_images())).result, Result::kSucceeded);
  const auto outcomes = run_ranks(options, with({1, {2, 3, 5, 6, 7}, true}, small_images()));
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.code, ExitCode::kNotFinite);
    EXPECT_THAT(outcome.error, HasSubstr("not finite in 3 steps in a row up to step 7"));
    EXPECT_EQ(outcome.updates, 2);
    EXPECT_EQ(difference(outcome.weights, outcomes[0].weights), "");
    EXPECT_TRUE(all_finite(outcome.weights));
  }
}

TEST(NotFinite, steps_in_a_row_are_counted_across_a_restart) {
  const CheckpointDirectory directory;
  TrainOptions options = mlp_options();
  options.max_skipped = 2;
  options.checkpoint.directory = directory.path();
  World stopped = with({1, {2, 3}, true}, small_images());
  stopped.hooks = [faults = stopped.hooks](int rank, std::atomic<bool>& stop,
                                           test::ThreadNetwork& network) {
    Hooks hooks = faults(rank, stop, network);
    if (rank != 0) return hooks;
    hooks.before_pass = [&stop](std::int64_t pass, const backend::Batch&) { stop = pass == 2; };
    return hooks;
  };
  EXPECT_EQ(run(options, stopped).result, Result::kSaved);
  EXPECT_EQ(newest(directory.path()).state.skipped_in_a_row, 2);
  for (const Outcome& outcome : run_ranks(options, with({1, {1}, true}, small_images()))) {
    EXPECT_EQ(outcome.code, ExitCode::kNotFinite);
  }
}

TEST(NotFinite, is_what_a_learning_rate_far_too_high_ends_in) {
  TrainOptions options = mlp_options();
  options.schedule.lr = 1e30F;
  for (const Outcome& outcome : run_ranks(options, {.size = 2, .training = &small_images()})) {
    EXPECT_EQ(outcome.code, ExitCode::kNotFinite);
  }
}

// Three steps, of which ten may be skipped.
TEST(NotFinite, is_what_a_run_of_fewer_steps_than_may_be_skipped_ends_in) {
  const CheckpointDirectory directory;
  TrainOptions options = mlp_options();
  options.steps = 3;
  options.checkpoint.directory = directory.path();
  const auto outcomes = run_ranks(options, with({1, {2, 3}, true}, small_images()));
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.code, ExitCode::kNotFinite);
    EXPECT_THAT(outcome.error, HasSubstr("ended after step 3 with a training loss or gradient"));
  }
  EXPECT_TRUE(outcomes[0].told.finished.empty());
  EXPECT_EQ(saved_in(directory.path()), std::set<std::string>());
  // A last step that is finite again has healed it.
  EXPECT_EQ(run(options, with({1, {1, 2}, true}, small_images())).result, Result::kSucceeded);
}

TEST(NotFinite, test_loss_is_no_success_even_of_a_finished_run) {
  const CheckpointDirectory directory;
  TrainOptions options = mlp_options();
  options.checkpoint.directory = directory.path();
  World world = {.size = 2, .training = &small_images()};
  run(options, world);
  world.test = &small_test_images();
  options.preprocessing = {augment::Normalise{{0}, {1e-39}}};  // pixels are infinite
  for (const Outcome& outcome : run_ranks(options, world)) {
    EXPECT_EQ(outcome.code, ExitCode::kNotFinite);
    EXPECT_THAT(outcome.error, HasSubstr("a test loss that is not finite"));
  }
}

TEST(NotFinite, epoch_has_no_loss) {
  TrainOptions options = mlp_options();
  options.epochs = 2;
  const Outcome outcome = run(options, with({0, {1, 2, 3, 4, 5, 6, 7, 8}, true}, small_images()));
  EXPECT_TRUE(std::isnan(outcome.told.epochs.at(0).training_loss));
  EXPECT_TRUE(std::isfinite(outcome.told.epochs.at(1).training_loss));
}

TEST(NotFinite, steps_stay_out_of_the_losses_that_are_reported) {
  TrainOptions options = mlp_options();
  options.epochs = 1;
  const Outcome outcome = run(options, with({2, {3}, true}, small_images()));
  double sum = 0;
  for (const StepReport& step : outcome.told.steps) {
    EXPECT_NE(step.step, 3);
    sum += step.loss * (step.step == 8 ? 4 : 8);
  }
  EXPECT_EQ(outcome.told.steps.size(), 7U);
  EXPECT_NEAR(outcome.told.epochs.at(0).training_loss, sum / 52, 1e-6);
}

TEST(LossScale, is_halved_on_all_ranks_where_one_overflows_and_the_step_is_skipped) {
  TrainOptions options = mlp_options();
  options.loss_scaling = {.initial = 8, .dynamic = true};
  const auto outcomes = run_ranks(options, with({1, {2, 5}, false, kInfinity}, small_images()));
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.result, Result::kSucceeded);
    EXPECT_EQ(outcome.updates, 22);
    EXPECT_EQ(difference(outcome.weights, outcomes[0].weights), "");
  }
  EXPECT_THAT(
      outcomes[0].told.warnings,
      ElementsAre("Gradient overflow. Skipping step, loss scaler 0 reducing loss scale to 4.0",
                  "Gradient overflow. Skipping step, loss scaler 0 reducing loss scale to 2.0"));
}

TEST(LossScale, changes_no_bit_of_a_run_in_float32) {
  TrainOptions options = mlp_options();
  const Outcome plain = run(options, with({0, {}, true}, small_images()));
  for (const double scale : {2.0, 65536.0}) {
    options.loss_scaling = {.initial = scale};
    EXPECT_EQ(difference(run(options, with({0, {}, true}, small_images())).weights, plain.weights),
              "")
        << scale;
  }
}

TEST(LossScale, counts_a_skip_at_its_floor_or_of_a_loss_that_is_not_finite) {
  TrainOptions options = mlp_options();
  options.max_skipped = 1;
  for (const bool in_loss : {true, false}) {
    options.loss_scaling = {.initial = in_loss ? 65536.0 : 2.0, .dynamic = true};
    const std::set<std::int64_t> passes =
        in_loss ? std::set<std::int64_t>{2, 3} : std::set<std::int64_t>{2, 3, 4};
    const Outcome outcome =
        run_ranks(options, with({1, passes, in_loss, kInfinity}, small_images()))[0];
    EXPECT_EQ(outcome.code, ExitCode::kNotFinite);
    EXPECT_THAT(outcome.error, HasSubstr("not finite in 2 steps in a row"));
  }
}

TEST(LossScale, goes_on_where_it_stood_after_a_restart) {
  const CheckpointDirectory directory;
  TrainOptions options = mlp_options();
  options.checkpoint.directory = directory.path();
  options.loss_scaling = {.initial = 1024, .dynamic = true};
  options.trajectory["lossScale"] = "dynamic";
  options.steps = 10;
  EXPECT_EQ(run(options, with({1, {4}, false, kInfinity}, small_images())).result,
            Result::kSucceeded);
  EXPECT_EQ(newest(directory.path()).state.loss_scale, 512);
  EXPECT_EQ(newest(directory.path()).state.clean_steps, 6);
  options.steps = 12;
  EXPECT_EQ(run(options, with({1, {}, false}, small_images())).result, Result::kSucceeded);
  EXPECT_EQ(newest(directory.path()).state.loss_scale, 512);
  EXPECT_EQ(newest(directory.path()).state.clean_steps, 8);
  options.steps = 14;
  options.loss_scaling = {.initial = 32};
  options.trajectory["lossScale"] = "32";
  EXPECT_EQ(run(options, with({1, {}, false}, small_images())).result, Result::kSucceeded);
  EXPECT_EQ(newest(directory.path()).state.loss_scale, 32);
}

// tests/golden/optim/make.py
TEST(LossScale, follows_the_grad_scaler_of_pytorch) {
  const std::set<std::int64_t> overflows = {0, 1, 2, 100, 2099, 4101, 4102, 8000, 8001, 8002, 8003};
  std::ifstream golden("tests/golden/optim/loss_scale.txt");
  std::string line;
  std::getline(golden, line);
  LossScale now{65536, 0};
  double before = 0;
  std::size_t changes = 0;
  for (std::int64_t step = 0; step < 9000; ++step) {
    now = next_scale({65536, true}, now, !overflows.contains(step));
    if (now.scale == before) continue;
    before = now.scale;
    ASSERT_TRUE(std::getline(golden, line));
    EXPECT_EQ(line, fmt::format("{} {:.9g}", step, now.scale));
    ++changes;
  }
  EXPECT_FALSE(std::getline(golden, line));
  EXPECT_GT(changes, 10U);
}

TEST(LossScale, stays_within_its_bounds) {
  EXPECT_EQ(next_scale({1, true}, {16777216, 1999}, true), (LossScale{16777216, 0}));
  EXPECT_EQ(next_scale({1, true}, {8388608, 1999}, true), (LossScale{16777216, 0}));
  EXPECT_EQ(next_scale({1, true}, {1.5, 7}, false), (LossScale{1, 0}));
  EXPECT_EQ(next_scale({128, false}, {128, 0}, false), (LossScale{128, 0}));
}

}  // namespace
}  // namespace coxswain::train
