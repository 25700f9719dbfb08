#include "trainer/tensor/philox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

namespace coxswain::tensor {
namespace {

using ::testing::ElementsAre;

// Known answers of philox4x32-10 from Random123's kat_vectors: counter words 0 to 3, key words 0
// and 1.
TEST(Philox, gives_the_published_answers) {
  EXPECT_THAT(philox(0, {0, 0, 0, 0}),
              ElementsAre(0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U));
  EXPECT_THAT(philox(0xffffffffffffffffU, {0xffffffffU, 0xffffffffU, 0xffffffffU, 0xffffffffU}),
              ElementsAre(0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU));
  EXPECT_THAT(philox(0x299f31d0a4093822U, {0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U}),
              ElementsAre(0xd16cfe09U, 0x94fdccebU, 0x5001e420U, 0x24126ea1U));
}

TEST(Philox, changes_with_each_part_of_the_counter_and_the_seed) {
  const std::set<std::array<std::uint32_t, 4>> distinct = {
      philox(0, {0, 0, 0, 0}), philox(1, {0, 0, 0, 0}), philox(1ULL << 32, {0, 0, 0, 0}),
      philox(0, {1, 0, 0, 0}), philox(0, {0, 1, 0, 0}), philox(0, {0, 0, 1, 0}),
      philox(0, {0, 0, 0, 1}),
  };
  EXPECT_EQ(distinct.size(), 7U);
}

// FNV-1a, 32 bits: the published test values.
TEST(Philox, hashes_names_as_fnv_1a) {
  EXPECT_EQ(stream_of(""), 0x811c9dc5U);
  EXPECT_EQ(stream_of("a"), 0xe40c292cU);
  EXPECT_EQ(stream_of("foobar"), 0xbf9cf968U);
  EXPECT_EQ(stream_of("\xff"),
            (0x811c9dc5U ^ 0xffU) * 0x01000193U);  // bytes, not signed characters
}

TEST(Philox, maps_words_to_uniform_numbers_below_one) {
  EXPECT_EQ(to_uniform(0), 0.0F);
  EXPECT_EQ(to_uniform(0x80000000U), 0.5F);
  EXPECT_EQ(to_uniform(0xffffffffU), 1.0F - 0x1.0p-24F);
  EXPECT_EQ(to_uniform(0x000000ffU), 0.0F);  // the lower 8 bits have no place in a float
}

TEST(Philox, is_uniform) {
  constexpr int kBins = 64;
  constexpr std::uint32_t kBlocks = 16000;
  std::array<int, kBins> counts{};
  for (std::uint32_t i = 0; i < kBlocks; ++i) {
    for (const std::uint32_t word : philox(42, {0, 0, stream_of("uniform"), i})) {
      ++counts[static_cast<std::size_t>(to_uniform(word) * kBins)];
    }
  }
  double chi_squared = 0;
  for (const int count : counts) chi_squared += (count - 1000.0) * (count - 1000.0) / 1000.0;
  EXPECT_LT(chi_squared, 103.4);  // 63 degrees of freedom, 99.9 %
}

TEST(Philox, makes_standard_normal_numbers) {
  double sum = 0;
  double squares = 0;
  double cross = 0;
  int beyond_two = 0;
  constexpr std::uint32_t kPairs = 50000;
  for (std::uint32_t i = 0; i < kPairs; ++i) {
    const auto words = philox(7, {0, 0, stream_of("normal"), i});
    const auto [x, y] = to_normal(words[0], words[1]);
    sum += x + y;
    squares += double{x} * x + double{y} * y;
    cross += double{x} * y;
    beyond_two += (std::abs(x) > 2 ? 1 : 0) + (std::abs(y) > 2 ? 1 : 0);
  }
  EXPECT_NEAR(sum / (2.0 * kPairs), 0.0, 4 / std::sqrt(2.0 * kPairs));
  EXPECT_NEAR(squares / (2.0 * kPairs), 1.0, 4 * std::sqrt(2 / (2.0 * kPairs)));
  EXPECT_NEAR(cross / kPairs, 0.0, 4 / std::sqrt(1.0 * kPairs));
  EXPECT_NEAR(beyond_two / (2.0 * kPairs), 0.0455, 0.003);
}

TEST(Philox, makes_finite_normal_numbers_of_every_word) {
  for (const std::uint32_t a : {0U, 1U, 0x7fffffffU, 0xffffffffU}) {
    for (const std::uint32_t b : {0U, 1U, 0x80000000U, 0xffffffffU}) {
      for (const float value : to_normal(a, b)) EXPECT_TRUE(std::isfinite(value)) << a << " " << b;
    }
  }
  EXPECT_FLOAT_EQ(to_normal(0, 0)[0], 6.6604362F);  // sqrt(2 ln 2^32): the largest
}

}  // namespace
}  // namespace coxswain::tensor
