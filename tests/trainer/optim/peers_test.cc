#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "tests/support/peer_values.h"
#include "trainer/optim/formulas.h"
#include "trainer/optim/lr_schedule.h"
#include "trainer/optim/update_rule.h"

// What other programs do, as tests/golden/optim/make.py wrote it down.
namespace coxswain::optim {
namespace {

constexpr std::size_t kSize = 4;
constexpr int kSteps = 20;

std::array<float, kSize> gradient(int step) {
  return {static_cast<float>(7 * step % 11 - 5) / 16, static_cast<float>(5 * step % 7 - 1) / 16,
          static_cast<float>(3 * step % 5 + 1) / 16, 0};
}

// The weights after each five steps.
std::vector<double> follow(const UpdateRule& rule, float lr, float momentum, int rows) {
  std::array<float, kSize> weights{1, -0.5F, 0.25F, 2};
  std::vector<std::vector<float>> slots(slot_names(rule, momentum > 0).size(),
                                        std::vector<float>(kSize));
  const bool averages = rule.ema_decay > 0;
  if (averages) slots.back().assign(weights.begin(), weights.end());
  std::vector<double> result;
  for (int step = 0; step < kSteps; ++step) {
    const auto gradients = gradient(step);
    SegmentPart part{tensor::SegmentKind::kWeight, weights, gradients, {}, rows};
    for (std::size_t i = 0; i < slots.size(); ++i) part.slots[i] = slots[i];
    update(rule,
           {.lr = lr,
            .momentum = momentum,
            .update_count = step + 1,
            .gradient_factor = clip_factor(rule.clip_norm, sum_of_squares(gradients))},
           part);
    if (step % 5 != 4) continue;
    const std::span<const float> told = averages ? std::span<const float>(slots.back()) : weights;
    result.insert(result.end(), told.begin(), told.end());
  }
  return result;
}

struct Peer {
  const char* name;
  UpdateRule rule;
  float lr;
  float momentum = 0;
  int rows = 0;
  double tolerance = 1e-5;
};

std::vector<Peer> peers() {
  using enum OptimizerKind;
  const auto of = [](OptimizerKind kind, bool inside, float decay, bool centered, float beta2,
                     float epsilon) {
    return UpdateRule{.kind = kind,
                      .form = inside ? MomentumForm::kMxnet : MomentumForm::kPyTorch,
                      .weight_decay = decay,
                      .centered = centered,
                      .beta2 = beta2,
                      .epsilon = epsilon};
  };
  const auto rms = [&](bool inside, float decay, bool centered) {
    return of(kRmsProp, inside, decay, centered, 0.9F, 1e-3F);
  };
  return {{"torch_adamw", of(kAdamW, false, 0.1F, false, 0.999F, 1e-8F), 0.01F, 0.9F},
          {"keras_adamw", of(kAdamW, false, 0.1F, false, 0.999F, 1e-8F), 0.01F, 0.9F},
          {"torch_rmsprop", rms(false, 0.1F, false), 0.01F},
          {"torch_rmsprop_momentum", rms(false, 0, false), 0.01F, 0.8F},
          {"torch_rmsprop_centered", rms(false, 0, true), 0.01F},
          {"torch_rmsprop_both", rms(false, 0, true), 0.01F, 0.8F},
          {"keras_rmsprop", rms(true, 0, false), 0.01F},
          {"keras_rmsprop_momentum", rms(true, 0, false), 0.01F, 0.8F},
          {"keras_rmsprop_both", rms(true, 0, true), 0.01F, 0.8F},
          {"mxnet_rmsprop", rms(true, 0.1F, false), 0.01F},
          {"mxnet_rmsprop_both", rms(true, 0.1F, true), 0.01F, 0.8F},
          {"torch_adagrad", of(kAdaGrad, false, 0.1F, false, 0, 1e-3F), 0.05F},
          {"keras_adagrad", of(kAdaGrad, true, 0, false, 0, 1e-3F), 0.05F},
          {"mxnet_adagrad", of(kAdaGrad, true, 0, false, 0, 1e-3F), 0.05F},
          {"torch_adadelta", of(kAdaDelta, false, 0.1F, false, 0.9F, 1e-3F), 1},
          {"keras_adadelta", of(kAdaDelta, false, 0, false, 0.9F, 1e-3F), 1},
          {"mxnet_signum", of(kSignum, false, 0.1F, false, 0, 0), 0.01F, 0.8F},
          {"mxnet_signsgd", of(kSignum, false, 0.1F, false, 0, 0), 0.01F},
          {"mxnet_lars", {.kind = kLars, .weight_decay = 0.1F, .eta = 0.01F}, 0.5F, 0.9F},
          {"mxnet_lamb", of(kLamb, false, 0.1F, false, 0.999F, 1e-6F), 0.01F, 0.9F},
          {"keras_lamb", of(kLamb, false, 0, false, 0.999F, 1e-6F), 0.01F, 0.9F},
          {"torch_muon", of(kMuon, false, 0.1F, false, 0.999F, 1e-7F), 0.05F, 0.9F, 2, 2e-2},
          {"muon", of(kMuon, false, 0.1F, false, 0.999F, 1e-7F), 0.05F, 0.9F, 2},
          {"torch_clip_norm", {.weight_decay = 0.1F, .clip_norm = 0.25F}, 0.1F, 0.9F},
          {"torch_clip_value", {.weight_decay = 0.1F, .clip_value = 0.125F}, 0.1F, 0.9F},
          {"torch_average", {.ema_decay = 0.9F}, 0.1F}};
}

TEST(Peers, agree_with_each_rule_over_twenty_steps) {
  const test::PeerValues expected = test::read_peer_values("tests/golden/optim/peers.txt");
  ASSERT_EQ(expected.size(), peers().size());
  for (const Peer& peer : peers()) {
    const std::vector<double>& want = expected.at(peer.name);
    const std::vector<double> weights = follow(peer.rule, peer.lr, peer.momentum, peer.rows);
    ASSERT_EQ(weights.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_NEAR(weights[i], want[i], peer.tolerance * std::max(1.0, std::abs(want[i])))
          << peer.name << ", number " << i;
    }
  }
}

TEST(Peers, agree_with_each_schedule_at_every_step) {
  const Schedule step{.kind = ScheduleKind::kStep, .lr = 0.5F, .step_epochs = 2, .gamma = 0.3F};
  const Schedule exponential{.kind = ScheduleKind::kExponential, .lr = 0.5F, .gamma = 0.9F};
  Schedule cyclic{.kind = ScheduleKind::kCyclic, .lr = 0.5F, .min_lr = 0.1F, .rise_epochs = 0.75};
  const test::PeerValues expected = test::read_peer_values("tests/golden/optim/curves.txt");
  ASSERT_EQ(expected.size(), 4U);
  const auto expect = [&](const char* name, const Schedule& schedule) {
    const std::vector<double>& want = expected.at(name);
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_NEAR(learning_rate(schedule, static_cast<std::int64_t>(i), 20, 4).lr, want[i], 1e-6)
          << name << ", step " << i;
    }
  };
  expect("step", step);
  expect("exponential", exponential);
  expect("triangular", cyclic);
  cyclic.cycle_mode = CycleMode::kTriangular2;
  expect("triangular2", cyclic);
}

TEST(Warmup, precedes_step_and_exponential_without_moving_them_and_moves_cycles) {
  Schedule schedule{
      .kind = ScheduleKind::kStep, .lr = 1, .warmup_epochs = 1, .step_epochs = 1.5, .gamma = 0.5F};
  const auto rate = [&](std::int64_t step) { return learning_rate(schedule, step, 20, 4).lr; };
  EXPECT_EQ(rate(0), 0.25F);
  EXPECT_EQ(rate(3), 1);
  EXPECT_EQ(rate(5), 1);
  EXPECT_EQ(rate(6), 0.5F);
  schedule.kind = ScheduleKind::kExponential;
  EXPECT_EQ(rate(0), 0.25F);
  EXPECT_EQ(rate(4), 0.5F);
  schedule.kind = ScheduleKind::kCyclic;
  schedule.min_lr = 0.5F;
  EXPECT_EQ(rate(0), 0.125F);
  EXPECT_EQ(rate(3), 0.5F);
  EXPECT_EQ(rate(4), 0.5F);
  EXPECT_EQ(rate(8), 1);
}

}  // namespace
}  // namespace coxswain::optim
