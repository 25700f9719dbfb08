#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/train/training_fixture.h"

namespace coxswain::train {
namespace {

using ::testing::HasSubstr;

struct Rule {
  std::string name;
  OptimizerKind kind;
  float momentum;
  float lr;
};

const std::vector<Rule>& rules() {
  static const std::vector<Rule> all = {{"sgd", OptimizerKind::kSgd, 0, 0.05F},
                                        {"momentum", OptimizerKind::kSgd, 0.9F, 0.05F},
                                        {"nesterov", OptimizerKind::kNesterov, 0.9F, 0.05F},
                                        {"adam", OptimizerKind::kAdam, 0.9F, 0.001F},
                                        {"adamw", OptimizerKind::kAdamW, 0.9F, 0.001F},
                                        {"rmsprop", OptimizerKind::kRmsProp, 0.9F, 0.0001F},
                                        {"lars", OptimizerKind::kLars, 0.9F, 0.1F},
                                        {"lamb", OptimizerKind::kLamb, 0.9F, 0.001F},
                                        {"muon", OptimizerKind::kMuon, 0.95F, 0.001F}};
  return all;
}

TrainOptions with(const Rule& rule, std::int64_t steps) {
  TrainOptions options = mlp_options();
  options.batch_size = 24;
  options.rule.kind = rule.kind;
  options.rule.weight_decay = 1e-4F;
  options.schedule.momentum = rule.momentum;
  options.schedule.lr = rule.lr;
  options.steps = steps;
  return options;
}

TEST(WorldSize, does_not_matter_where_a_batch_is_computed) {
  for (const Rule& rule : rules()) {
    for (const std::int64_t steps : {1, 5}) {
      const TrainOptions options = with(rule, steps);
      const Outcome alone = run(options, {.size = 1, .training = &small_images()});
      ASSERT_EQ(alone.updates, steps);
      for (const int size : {2, 3, 4}) {
        const Outcome together = run(options, {.size = size, .training = &small_images()});
        EXPECT_LE(relative_distance(alone.weights, together.weights), 1e-6)
            << rule.name << ", " << size << " ranks, " << steps << " steps";
      }
    }
  }
}

// With as many parts on any number of ranks.
TEST(WorldSize, changes_no_bit_of_layerwise_rates_clipping_averages_or_halves) {
  TrainOptions options = mlp_options();
  options.global_batch_size = true;
  options.virtual_shards = 4;
  options.precision = Precision::kFp16;
  options.loss_scaling = {.initial = 65536, .dynamic = true};
  options.rule = {.kind = OptimizerKind::kLamb,
                  .weight_decay = 1e-4F,
                  .clip_norm = 0.1F,
                  .clip_value = 0.01F,
                  .ema_decay = 0.9F};
  options.schedule = {.lr = 0.01F, .momentum = 0.9F};
  const Outcome alone = run(options, {.size = 1, .training = &small_images()});
  ASSERT_EQ(alone.slots.size(), 3 * alone.weights.size());
  for (const int size : {2, 4}) {
    const Outcome together = run(options, {.size = size, .training = &small_images()});
    EXPECT_EQ(difference(alone.weights, together.weights), "") << size;
    EXPECT_EQ(difference(alone.slots, together.slots), "") << size;
  }
}

// Such a rank's loader must not search the epochs to come for its first sample: without `epochs`
// they have no end.
TEST(WorldSize, may_leave_ranks_without_samples) {
  const auto few_images = data::make_synthetic({1, 1, 6, 6}, 4, 3, 7);
  for (const auto& [images, batch] : {std::pair{&small_images(), 2}, {few_images.get(), 8}}) {
    TrainOptions options = mlp_options();
    options.batch_size = batch;
    options.epochs.reset();
    options.steps = 5;
    const Outcome alone = run(options, {.size = 1, .training = images});
    const Outcome together = run(options, {.size = 5, .training = images});
    EXPECT_EQ(together.result, Result::kSucceeded);
    EXPECT_LE(relative_distance(alone.weights, together.weights), 1e-6);
    EXPECT_THAT(together.told.notes(), HasSubstr("of 5 ranks without work"));
    EXPECT_EQ(alone.told.notes(), "");
  }
}

TEST(WorldSize, multiplies_a_batch_per_worker) {
  TrainOptions options = with(rules()[1], 3);
  const Outcome alone = run(options, {.size = 1, .training = &small_images()});
  options.global_batch_size = false;
  options.batch_size = 8;
  const Outcome together = run(options, {.size = 3, .training = &small_images()});
  EXPECT_EQ(together.told.started[0].global_batch, 24);
  EXPECT_LE(relative_distance(alone.weights, together.weights), 1e-6);
}

TEST(WorldSize, scales_the_learning_rate_for_the_global_batch_when_told) {
  using Scaling = LrScaling;
  struct Row {
    Scaling scaling;
    double factor;
  };
  for (const Row& row :
       {Row{Scaling::kNone, 1}, Row{Scaling::kLinear, 6}, Row{Scaling::kSqrt, std::sqrt(6)}}) {
    TrainOptions options = with(rules()[0], 1);
    options.global_batch_size = false;
    options.batch_size = 4;
    options.accumulate = 2;
    options.lr_scaling = row.scaling;
    const Outcome outcome = run(options, {.size = 3, .training = &small_images()});
    EXPECT_FLOAT_EQ(static_cast<float>(outcome.told.started[0].lr),
                    static_cast<float>(0.05 * row.factor));
    EXPECT_FLOAT_EQ(static_cast<float>(outcome.told.steps[0].lr),
                    static_cast<float>(0.05 * row.factor));
  }
}

TEST(WorldSize, does_not_matter_where_samples_are_mixed) {
  TrainOptions options = with(rules()[0], 5);
  const Outcome plain = run(options, {.size = 1, .training = &small_images()});
  options.preprocessing = {augment::Mixup{1}, augment::Cutmix{}};
  const Outcome alone = run(options, {.size = 1, .training = &small_images()});
  EXPECT_GT(relative_distance(alone.weights, plain.weights), 1e-4);
  for (const int size : {2, 3, 5}) {
    options.data_workers = size;
    const Outcome together = run(options, {.size = size, .training = &small_images()});
    EXPECT_LE(relative_distance(alone.weights, together.weights), 1e-6) << size << " ranks";
  }
}

struct Network {
  Model model;
  tensor::Shape image;
  int accumulate;
};

// Two full batches and a short one, of fewer rows than there are shards.
TrainOptions any_world_size(const Network& network) {
  TrainOptions options = mlp_options();
  options.model = network.model;
  options.virtual_shards = 8;
  options.batch_size = 17;
  options.accumulate = network.accumulate;
  options.epochs = 1;
  options.preprocessing = {augment::Mixup{}};
  return options;
}

TEST(AnyWorldSize, gives_the_same_bits_on_every_number_of_ranks) {
  for (const Network& network : std::vector<Network>{{Model::kCifarResnet8, {1, 3, 8, 8}, 1},
                                                     {Model::kKerasCnn, {1, 1, 6, 6}, 1},
                                                     {Model::kKerasCnn, {1, 1, 6, 6}, 2}}) {
    const auto training = data::make_synthetic(network.image, 4, 39, 1);
    const auto test = data::make_synthetic(network.image, 4, 13, 2);
    const TrainOptions options = any_world_size(network);
    const Outcome alone = run(options, {1, training.get(), test.get()});
    ASSERT_EQ(alone.updates, 3);
    for (const int size : {2, 3, 4, 7, 8}) {
      SCOPED_TRACE(fmt::format("{} on {} ranks", word(network.model), size));
      const Outcome together = run(options, {size, training.get(), test.get()});
      EXPECT_EQ(difference(alone.weights, together.weights), "");
      EXPECT_EQ(difference(alone.slots, together.slots), "");
      ASSERT_EQ(together.told.epochs.size(), 1U);
      EXPECT_EQ(together.told.epochs[0].training_loss, alone.told.epochs[0].training_loss);
      EXPECT_EQ(together.told.epochs[0].loss, alone.told.epochs[0].loss);
      EXPECT_EQ(together.told.epochs[0].accuracy, alone.told.epochs[0].accuracy);
      EXPECT_EQ(together.told.epochs[0].top5, alone.told.epochs[0].top5);
    }
  }
}

TEST(BucketSize, does_not_change_bits) {
  const auto images = data::make_synthetic({1, 1, 14, 14}, 4, 30, 3);
  TrainOptions options = mlp_options();
  options.epochs = 1;
  for (const int size : {3, 4}) {
    options.bucket_bytes = std::int64_t{1} << 30;  // all in one message
    const Outcome whole = run(options, {.size = size, .training = images.get()});
    for (const std::int64_t bytes : {0, 1, 40'000}) {  // 0: measured; 1: one a tensor
      options.bucket_bytes = bytes;
      const Outcome cut = run(options, {.size = size, .training = images.get()});
      EXPECT_EQ(difference(whole.weights, cut.weights), "") << size << " ranks, " << bytes;
    }
  }
}

}  // namespace
}  // namespace coxswain::train
