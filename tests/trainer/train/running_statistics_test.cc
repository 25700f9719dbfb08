#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/trainer/train/training_fixture.h"
#include "trainer/train/step_plan.h"
#include "trainer/tensor/host_span.h"

namespace coxswain::train {
namespace {

constexpr tensor::Shape kImage = {1, 2, 6, 6};
constexpr double kMomentum = 0.1;

// Running mean and variance of the norm that reads the images, after each step on each rank.
using History = std::vector<std::vector<std::array<float, 4>>>;  // [rank][step]: means, variances

std::array<float, 4> of_first_norm(backend::Parameters& parameters) {
  const auto& layout = parameters.layout();
  const auto segment = [&](const char* name) {
    return tensor::host_span(
        parameters.weights(layout.segments[static_cast<std::size_t>(*layout.find(name))]));
  };
  const auto mean = segment("bn_data.running_mean");
  const auto variance = segment("bn_data.running_var");
  return {mean[0], mean[1], variance[0], variance[1]};
}

// What the images of one part contribute: the mean and the unbiased variance of each channel.
std::array<double, 4> moments(const data::Dataset& images, std::span<const std::int64_t> ids) {
  constexpr std::size_t kPixels = 36;
  std::array<double, 4> result{};
  for (std::size_t channel = 0; channel < 2; ++channel) {
    std::vector<double> values;
    for (const std::int64_t id : ids) {
      augment::Scratch scratch;
      const auto bytes = images.read(id, scratch).bytes;
      for (std::size_t i = 0; i < kPixels; ++i) values.push_back(bytes[2 * i + channel] / 255.0);
    }
    const auto count = static_cast<double>(values.size());
    for (const double value : values) result[channel] += value / count;
    for (const double value : values) {
      const double d = value - result[channel];
      result[2 + channel] += d * d / (count - 1);
    }
  }
  return result;
}

struct StatisticsCase {
  int ranks;
  int accumulate;
  int virtual_shards;
};

// 14 samples in batches of 6: the last one has two rows, so that some ranks have none.
TrainOptions options_of(const StatisticsCase& row) {
  TrainOptions options = mlp_options();
  options.model = Model::kCifarResnet8;
  options.batch_size = 6;
  options.accumulate = row.accumulate;
  options.virtual_shards = row.virtual_shards;
  options.epochs = 2;
  return options;
}

History train_and_watch(const TrainOptions& options, const data::Dataset& images, int ranks) {
  History history(static_cast<std::size_t>(ranks));
  World world = {.size = ranks, .training = &images};
  world.hooks = [&](int rank, std::atomic<bool>&, test::ThreadNetwork&) {
    Hooks hooks;
    hooks.after_update = [&history, rank](std::int64_t, backend::Parameters& parameters) {
      history[static_cast<std::size_t>(rank)].push_back(of_first_norm(parameters));
    };
    return hooks;
  };
  run(options, world);
  return history;
}

// running = (1 - m) running + m sum / parts, over the parts that have rows.
std::vector<std::array<double, 4>> expected(const TrainOptions& options, const StatisticsCase& row,
                                            const data::Dataset& images) {
  std::vector<std::array<double, 4>> result;
  std::array<double, 4> running = {0, 0, 1, 1};
  for (std::int64_t epoch = 0; epoch < *options.epochs; ++epoch) {
    const data::EpochOrder order({.dataset_size = images.size(),
                                  .global_batch = options.batch_size,
                                  .world_size = row.ranks,
                                  .seed = options.seed},
                                 epoch);
    for (std::int64_t step = 0; step < order.steps(); ++step) {
      std::array<double, 4> sum{};
      double parts = 0;
      const StepCut cut = {row.ranks, row.virtual_shards, row.accumulate};
      for (int rank = 0; rank < row.ranks; ++rank) {
        for (const MicroBatch& micro : plan_step(cut, order, step, rank).micro_batches) {
          if (micro.sample_ids.empty()) continue;
          const auto part = moments(images, micro.sample_ids);
          for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
          parts += 1;
        }
      }
      for (std::size_t i = 0; i < sum.size(); ++i) {
        running[i] = (1 - kMomentum) * running[i] + kMomentum * sum[i] / parts;
      }
      result.push_back(running);
    }
  }
  return result;
}

TEST(RunningStatistics, are_the_mean_over_the_parts_of_every_step_on_every_rank) {
  const auto images = data::make_synthetic(kImage, 4, 14, 5);
  for (const StatisticsCase& row :
       std::vector<StatisticsCase>{{1, 1, 0}, {2, 1, 0}, {4, 1, 0}, {2, 2, 0}, {3, 1, 4}}) {
    SCOPED_TRACE(
        fmt::format("{} ranks x {}, {} shards", row.ranks, row.accumulate, row.virtual_shards));
    const TrainOptions options = options_of(row);
    const History seen = train_and_watch(options, *images, row.ranks);
    const auto formula = expected(options, row, *images);
    ASSERT_EQ(seen[0].size(), formula.size());
    for (std::size_t step = 0; step < formula.size(); ++step) {
      for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_NEAR(static_cast<double>(seen[0][step][i]), formula[step][i], 1e-5)
            << "step " << step << ", value " << i;
      }
      for (const auto& rank : seen) EXPECT_EQ(rank[step], seen[0][step]) << "step " << step;
    }
  }
}

}  // namespace
}  // namespace coxswain::train
