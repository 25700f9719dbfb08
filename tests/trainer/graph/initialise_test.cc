#include "trainer/graph/initialise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "trainer/graph/passes.h"
#include "trainer/tensor/philox.h"

namespace coxswain::graph {
namespace {

std::vector<float> values(const Initializer& init, const std::string& name, std::uint64_t seed,
                          std::size_t count) {
  std::vector<float> result(count, -9);
  initialise({name, SegmentKind::kWeight, {static_cast<std::int64_t>(count)}, init, 0}, seed,
             result);
  return result;
}

double mean_square(const std::vector<float>& v) {
  return std::inner_product(v.begin(), v.end(), v.begin(), 0.0) / static_cast<double>(v.size());
}

TEST(Initialise, fills_zeros_and_ones) {
  EXPECT_THAT(values({InitKind::kZero, 0}, "b", 1, 5), ::testing::Each(0.0F));
  EXPECT_THAT(values({InitKind::kOne, 0}, "g", 1, 5), ::testing::Each(1.0F));
}

// Of 5 filters over 2 channels and a 3x3 window the first two pass a channel on; the rest is drawn
// as without.
TEST(Initialise, passes_channels_on) {
  Parameter parameter{"w", SegmentKind::kWeight, {5, 2, 3, 3}, {InitKind::kNormal, 1}, 0};
  std::vector<float> drawn(90);
  initialise(parameter, 7, drawn);
  parameter.init.passes_on = true;
  std::vector<float> filters(90, -9);
  initialise(parameter, 7, filters);
  std::vector<float> expected = drawn;
  std::fill_n(expected.begin(), 36, 0.0F);
  expected[4] = expected[18 + 9 + 4] = 1;
  EXPECT_EQ(filters, expected);
}

TEST(Initialise, has_the_deviation_and_the_bound) {
  const std::vector<float> normal = values({InitKind::kNormal, 0.5F}, "w", 3, 40001);
  EXPECT_NEAR(std::accumulate(normal.begin(), normal.end(), 0.0) / 40001, 0, 0.01);
  EXPECT_NEAR(std::sqrt(mean_square(normal)), 0.5, 0.01);
  const std::vector<float> uniform = values({InitKind::kUniform, 0.25F}, "w", 3, 40001);
  EXPECT_NEAR(std::sqrt(mean_square(uniform)), 0.25 / std::sqrt(3.0), 0.003);
  EXPECT_GE(*std::ranges::min_element(uniform), -0.25F);
  EXPECT_LT(*std::ranges::max_element(uniform), 0.25F);
}

TEST(Initialise, depends_on_seed_and_name_and_not_on_the_length) {
  const Initializer init{InitKind::kNormal, 1};
  const std::vector<float> whole = values(init, "conv1.weight", 7, 10);
  const std::vector<float> part = values(init, "conv1.weight", 7, 6);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin()));
  EXPECT_NE(values(init, "conv1.weight", 8, 10), whole);
  EXPECT_NE(values(init, "conv2.weight", 7, 10), whole);
}

TEST(Initialise, draws_from_the_stated_counter) {
  const auto words = tensor::philox(7, {0, 0, tensor::stream_of("w"), 1});
  EXPECT_EQ(values({InitKind::kUniform, 1}, "w", 7, 8)[6], 2 * tensor::to_uniform(words[2]) - 1);
  EXPECT_EQ(values({InitKind::kNormal, 1}, "w", 7, 8)[7], tensor::to_normal(words[2], words[3])[1]);
}

// The rules for a weight of 8 outputs over 3 channels and a 5x5 window: fans 75 and 200.
TEST(Initialise, resolves_each_rule_from_the_fans) {
  struct Case {
    WeightInit rule;
    InitKind kind;
    double scale;
  };
  for (const Case& c : {Case{WeightInit::kXavierUniform, InitKind::kUniform, std::sqrt(6.0 / 275)},
                        Case{WeightInit::kHeNormalIn, InitKind::kNormal, std::sqrt(2.0 / 75)},
                        Case{WeightInit::kHeNormalOut, InitKind::kNormal, std::sqrt(2.0 / 200)},
                        Case{WeightInit::kSingaConv, InitKind::kNormal, std::sqrt(2.0 / 83)},
                        Case{WeightInit::kTorchDense, InitKind::kUniform, std::sqrt(1.0 / 75)}}) {
    Builder b({1, 3, 9, 9});
    const int x = b.conv(b.input(), "c", 8, 5, 1, 0, true, c.rule);
    const Graph graph =
        infer_shapes(b.finish(b.dense(x, "d", 10, true, WeightInit::kSingaDense), 0), 1);
    const std::vector<Parameter> all = parameters(graph);
    EXPECT_EQ(all[0].init.kind, c.kind);
    EXPECT_FLOAT_EQ(all[0].init.scale, static_cast<float>(c.scale));
    EXPECT_EQ(all[1].init, c.rule == WeightInit::kTorchDense ? all[0].init : Initializer{});
    EXPECT_FLOAT_EQ(all[2].init.scale, static_cast<float>(std::sqrt(2.0 / (200 + 10))));
  }
}

}  // namespace
}  // namespace coxswain::graph
