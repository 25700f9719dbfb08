#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>

#include "tests/support/model_run.h"
#include "tests/support/test_flags.h"
#include "trainer/backend/loss.h"
#include "trainer/backend/onednn/onednn_backend.h"
#include "trainer/backend/reference/reference_backend.h"
#include "trainer/contract/error.h"

namespace coxswain::backend {
namespace {

using coxswain::test::flags;
using test::ModelRun;

constexpr std::size_t kRows = 5;
constexpr std::size_t kClasses = 7;
constexpr tensor::Shape kShape{kRows, kClasses, 1, 1};

// Logits and labels drawn from the seed; of one row both labels are the same.
struct Case {
  std::vector<float> logits;
  std::vector<std::int32_t> labels{3, 0, 6, 2, 2};
  std::vector<std::int32_t> partners{1, 6, 0, 2, 5};
  std::vector<float> shares{0.75F, 0.25F, 0.0F, 0.4F, 1.0F};

  explicit Case(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < kRows * kClasses; ++i) logits.push_back(2 * normal(random));
  }

  Batch batch() const {
    Batch batch{{}, labels, {}, 0, 0, kRows, 4};
    batch.partner_labels = partners;
    batch.shares = shares;
    return batch;
  }
};

// torch.nn.CrossEntropyLoss(label_smoothing=s) of targets that are probabilities, in doubles.
double loss_of(const Case& c, double smoothing) {
  double loss = 0;
  for (std::size_t n = 0; n < kRows; ++n) {
    std::array<double, kClasses> target{};
    target[static_cast<std::size_t>(c.labels[n])] += static_cast<double>(c.shares[n]);
    target[static_cast<std::size_t>(c.partners[n])] += 1 - static_cast<double>(c.shares[n]);
    double sum = 0;
    for (std::size_t k = 0; k < kClasses; ++k)
      sum += std::exp(static_cast<double>(c.logits[n * kClasses + k]));
    for (std::size_t k = 0; k < kClasses; ++k) {
      const double smooth = (1 - smoothing) * target[k] + smoothing / kClasses;
      loss += smooth * (std::log(sum) - static_cast<double>(c.logits[n * kClasses + k]));
    }
  }
  return loss;
}

TEST(MixedLoss, is_the_cross_entropy_of_both_labels_by_their_shares) {
  for (std::uint64_t round = 0; round < 20; ++round) {
    const Case c(flags().seed + round);
    for (const float smoothing : {0.0F, 0.1F}) {
      EXPECT_NEAR(softmax_cross_entropy(kShape, smoothing, c.logits, c.batch()).loss,
                  loss_of(c, static_cast<double>(smoothing)), 1e-6);
    }
  }
}

TEST(MixedLoss, has_the_gradient_of_its_differences) {
  Case c(flags().seed);
  for (const float smoothing : {0.0F, 0.1F}) {
    std::vector<float> gradient(c.logits.size());
    softmax_cross_entropy_gradient(kShape, smoothing, c.logits, c.batch(), gradient);
    for (std::size_t i = 0; i < c.logits.size(); ++i) {
      const float at = c.logits[i];
      c.logits[i] = at + 0x1p-10F;
      const double above = loss_of(c, static_cast<double>(smoothing));
      const double step_above = static_cast<double>(c.logits[i]) - static_cast<double>(at);
      c.logits[i] = at - 0x1p-10F;
      const double below = loss_of(c, static_cast<double>(smoothing));
      const double step = step_above + static_cast<double>(at) - static_cast<double>(c.logits[i]);
      c.logits[i] = at;
      EXPECT_NEAR(gradient[i], (above - below) / step / 4, 1e-6) << i << ", seed " << flags().seed;
    }
  }
}

TEST(MixedLoss, counts_the_label_of_the_greater_share) {
  std::vector<float> logits{0, 3, 1};
  const std::vector<std::int32_t> labels{0};
  const std::vector<std::int32_t> partners{1};
  const auto correct = [&](float share) {
    const std::vector<float> shares{share};
    Batch batch{{}, labels, {}, 0, 0, 1, 1};
    batch.partner_labels = partners;
    batch.shares = shares;
    return softmax_cross_entropy({1, 3, 1, 1}, 0, logits, batch).correct;
  };
  EXPECT_EQ(correct(0.4F), 1);
  EXPECT_EQ(correct(0.5F), 0);
  EXPECT_EQ(correct(0.6F), 0);
}

TEST(MixedLoss, is_the_same_of_every_backend_on_the_host) {
  graph::Builder b({1, 2, 6, 6});
  const auto init = graph::WeightInit::kXavierUniform;
  const int conv = b.relu(b.conv(b.input(), "c", 4, 3, 1, 1, true, init));
  const graph::Graph model = b.finish(b.dense(b.flatten(conv), "d", kClasses, true, init), 0.1F);
  const Case c(1);
  const auto run = [&](Backend& on) {
    ModelRun one(on, model, {.rows = kRows, .layout = LayoutKind::kCanonical, .seed = 5});
    one.batch.labels = c.labels;
    one.batch.partner_labels = c.partners;
    one.batch.shares = c.shares;
    const double loss = one.forward().loss;
    one.backward();
    return std::pair(loss, one.gradients("c.weight"));
  };
  const auto reference = make_reference_backend();
  const auto onednn = make_onednn_backend({.threads = 1});
  const auto [loss, gradients] = run(*reference);
  const auto [other_loss, other_gradients] = run(*onednn);
  EXPECT_NEAR(loss, other_loss, 1e-4);
  EXPECT_THAT(other_gradients, ::testing::Pointwise(::testing::FloatNear(1e-5F), gradients));
}

TEST(MixedLoss, of_a_partner_that_is_no_class_is_refused) {
  graph::Builder b({1, 1, 4, 4});
  const graph::Graph model =
      b.finish(b.dense(b.flatten(b.input()), "d", 3, true, graph::WeightInit::kXavierUniform), 0);
  const auto backend = make_reference_backend();
  ModelRun run(*backend, model, {.rows = 2});
  const std::vector<std::int32_t> partners{0, 9};
  const std::vector<float> shares{1, 0.5F};
  run.batch.partner_labels = partners;
  run.batch.shares = shares;
  try {
    run.forward();
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("the partner of sample"));
  }
}

}  // namespace
}  // namespace coxswain::backend
