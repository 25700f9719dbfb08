#include "trainer/optim/lr_schedule.h"

#include <gtest/gtest.h>

#include <vector>

namespace coxswain::optim {
namespace {

struct Point {
  double lr;
  double momentum;
};

void expect_curve(const Schedule& schedule, std::int64_t steps_per_epoch,
                  const std::vector<Point>& expected) {
  const auto total = static_cast<std::int64_t>(expected.size());
  for (std::int64_t step = 0; step < total; ++step) {
    const auto [lr, momentum] = learning_rate(schedule, step, total, steps_per_epoch);
    const Point& want = expected[static_cast<std::size_t>(step)];
    EXPECT_NEAR(lr, want.lr, 1e-7 + 1e-6 * want.lr) << "step " << step;
    EXPECT_NEAR(momentum, want.momentum, 1e-6) << "step " << step;
  }
}

// torch.optim.lr_scheduler.OneCycleLR(max_lr=1, total_steps=10): the peak is a whole step.
TEST(OneCycle, equals_pytorch_at_every_step_with_momentum_cycling) {
  expect_curve({.kind = ScheduleKind::kOneCycle, .lr = 1, .momentum = 0.9F, .cycle_momentum = true},
               5,
               {{0.04, 0.95},
                {0.52, 0.9},
                {1, 0.85},
                {0.950484632, 0.854951557},
                {0.811745654, 0.86882551},
                {0.611262022, 0.888873953},
                {0.388741978, 0.911126047},
                {0.188258346, 0.93117449},
                {0.049519368, 0.945048443},
                {4e-06, 0.95}});
}

// The same with max_lr=0.05, total_steps=16: the peak lies between two steps.
TEST(OneCycle, equals_pytorch_when_the_peak_is_between_steps) {
  expect_curve(
      {.kind = ScheduleKind::kOneCycle, .lr = 0.05F, .momentum = 0.9F, .cycle_momentum = true}, 8,
      {{0.002, 0.95},
       {0.00974524228, 0.933864079},
       {0.0279819043, 0.895871033},
       {0.0449393722, 0.860542975},
       {0.0499606705, 0.850078659},
       {0.0485970889, 0.852805833},
       {0.0453890402, 0.859221957},
       {0.0405872827, 0.86882551},
       {0.0345671475, 0.880865828},
       {0.0277992007, 0.894401776},
       {0.0208124612, 0.908375311},
       {0.0141530499, 0.921694187},
       {0.00834150219, 0.933317329},
       {0.00383207969, 0.94233621},
       {0.000977263043, 0.948045866},
       {2e-07, 0.95}});
}

TEST(OneCycle, keeps_the_momentum_unless_told_to_cycle_and_ignores_warmup) {
  const Schedule schedule{
      .kind = ScheduleKind::kOneCycle, .lr = 1, .momentum = 0.9F, .warmup_epochs = 1};
  EXPECT_FLOAT_EQ(learning_rate(schedule, 0, 10, 5).lr, 0.04F);
  for (int step = 0; step < 10; ++step) {
    EXPECT_EQ(learning_rate(schedule, step, 10, 5).momentum, 0.9F);
  }
}

TEST(OneCycle, stays_finite_for_the_shortest_trainings) {
  for (const std::int64_t total : {1, 2, 3, 4}) {
    for (std::int64_t step = 0; step < total; ++step) {
      const float lr = learning_rate({.kind = ScheduleKind::kOneCycle, .lr = 1}, step, total, 1).lr;
      EXPECT_GE(lr, 0) << step << " of " << total;
      EXPECT_LE(lr, 1) << step << " of " << total;
    }
  }
}

TEST(Constant, is_the_peak_at_every_step) {
  expect_curve({.lr = 0.1F, .momentum = 0.9F}, 2, {{0.1, 0.9}, {0.1, 0.9}, {0.1, 0.9}});
}

TEST(Constant, warms_up_linearly_from_lr_over_steps_to_lr) {
  expect_curve({.lr = 0.4F, .momentum = 0.9F, .warmup_epochs = 2}, 2,
               {{0.1, 0.9}, {0.2, 0.9}, {0.3, 0.9}, {0.4, 0.9}, {0.4, 0.9}, {0.4, 0.9}});
}

TEST(Multistep, multiplies_by_gamma_from_the_step_of_each_milestone) {
  expect_curve({.kind = ScheduleKind::kMultistep, .lr = 1, .milestones = {1, 2.5}}, 2,
               {{1, 0}, {1, 0}, {0.1, 0}, {0.1, 0}, {0.1, 0}, {0.01, 0}, {0.01, 0}});
}

TEST(Multistep, counts_milestones_from_the_start_not_from_the_end_of_warmup) {
  expect_curve({.kind = ScheduleKind::kMultistep,
                .lr = 1,
                .warmup_epochs = 1,
                .milestones = {2},
                .gamma = 0.5F},
               2, {{0.5, 0}, {1, 0}, {1, 0}, {1, 0}, {0.5, 0}, {0.5, 0}});
}

TEST(Cosine, falls_from_the_peak_to_the_least_rate_at_the_last_step) {
  expect_curve({.kind = ScheduleKind::kCosine, .lr = 1}, 5,
               {{1, 0}, {0.853553391, 0}, {0.5, 0}, {0.146446609, 0}, {0, 0}});
}

TEST(Cosine, follows_a_warmup) {
  expect_curve({.kind = ScheduleKind::kCosine, .lr = 0.4F, .min_lr = 0.01F, .warmup_epochs = 1}, 3,
               {{0.133333333, 0},
                {0.266666667, 0},
                {0.4, 0},
                {0.4, 0},
                {0.380688929, 0},
                {0.326580511, 0},
                {0.248391582, 0},
                {0.161608418, 0},
                {0.0834194886, 0},
                {0.0293110708, 0},
                {0.01, 0}});
}

TEST(Poly, is_linear_at_power_one) {
  expect_curve({.kind = ScheduleKind::kPoly, .lr = 1, .min_lr = 0.2F}, 5,
               {{1, 0}, {0.8, 0}, {0.6, 0}, {0.4, 0}, {0.2, 0}});
}

TEST(Poly, follows_a_warmup_at_power_two) {
  expect_curve(
      {.kind = ScheduleKind::kPoly, .lr = 0.4F, .min_lr = 0.01F, .warmup_epochs = 1, .power = 2}, 3,
      {{0.133333333, 0},
       {0.266666667, 0},
       {0.4, 0},
       {0.4, 0},
       {0.296530612, 0},
       {0.208979592, 0},
       {0.137346939, 0},
       {0.0816326531, 0},
       {0.0418367347, 0},
       {0.0179591837, 0},
       {0.01, 0}});
}

TEST(Schedules, hold_the_last_value_past_the_end) {
  for (const auto kind : {ScheduleKind::kConstant, ScheduleKind::kMultistep, ScheduleKind::kPoly,
                          ScheduleKind::kCosine, ScheduleKind::kOneCycle}) {
    const Schedule schedule{.kind = kind, .lr = 1, .min_lr = 0.1F, .milestones = {1}};
    EXPECT_EQ(learning_rate(schedule, 9, 10, 5).lr, learning_rate(schedule, 13, 10, 5).lr);
  }
}

TEST(Schedules, a_warmup_longer_than_the_training_only_warms_up) {
  const Schedule schedule{.kind = ScheduleKind::kCosine, .lr = 1, .warmup_epochs = 4};
  EXPECT_FLOAT_EQ(learning_rate(schedule, 4, 5, 5).lr, 0.25F);
}

}  // namespace
}  // namespace coxswain::optim
