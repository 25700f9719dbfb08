#include "trainer/tensor/data_type.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace coxswain::tensor {
namespace {

float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

TEST(BFloat16, rounds_to_nearest_with_ties_to_even) {
  const struct {
    std::uint32_t bits;
    std::uint16_t expected;
  } cases[] = {
      {0x3f800000, 0x3f80},                        // 1
      {0x3f807fff, 0x3f80},                        // just below half way
      {0x3f808000, 0x3f80},                        // half way: to the even one, below
      {0x3f808001, 0x3f81}, {0x3f818000, 0x3f82},  // half way: to the even one, above
      {0xbf818000, 0xbf82}, {0x3fffffff, 0x4000},  // a carry into the exponent
      {0x00000000, 0x0000}, {0x80000000, 0x8000},  // -0 stays -0
      {0x00008001, 0x0001},                        // denormal
      {0x7f7fffff, 0x7f80},                        // the largest float is nearer to infinity
      {0x7f7f7fff, 0x7f7f}, {0x7f800000, 0x7f80},  // infinities stay
      {0xff800000, 0xff80},
  };
  for (const auto& c : cases)
    EXPECT_EQ(to_bfloat16(from_bits(c.bits)), c.expected) << std::hex << c.bits;
}

TEST(BFloat16, keeps_nan_a_nan_whatever_its_payload) {
  for (const std::uint32_t bits : {0x7f800001U, 0x7fffffffU, 0xffc00000U, 0xff80ffffU}) {
    EXPECT_TRUE(std::isnan(from_bfloat16(to_bfloat16(from_bits(bits))))) << std::hex << bits;
  }
}

TEST(BFloat16, goes_to_float_and_back_unchanged) {
  for (std::uint32_t value = 0; value <= 0xffff; ++value) {
    const auto stored = static_cast<std::uint16_t>(value);
    const float wide = from_bfloat16(stored);
    if (std::isnan(wide)) continue;
    ASSERT_EQ(to_bfloat16(wide), stored);
  }
}

TEST(BFloat16, is_never_farther_than_the_neighbours) {
  std::uint32_t noise = 1;
  for (int i = 0; i < 20000; ++i) {
    noise = noise * 1664525U + 1013904223U;
    const float value = from_bits(noise);
    if (!std::isfinite(value) || std::abs(value) > 0x1.fep127F) continue;
    const std::uint16_t rounded = to_bfloat16(value);
    const double error = std::abs(double{from_bfloat16(rounded)} - value);
    for (const int step : {-1, 1}) {
      const float neighbour = from_bfloat16(static_cast<std::uint16_t>(rounded + step));
      if (std::isfinite(neighbour) && std::signbit(neighbour) == std::signbit(value)) {
        ASSERT_LE(error, std::abs(double{neighbour} - value)) << std::hex << noise;
      }
    }
  }
}

TEST(Float16, rounds_to_nearest_with_ties_to_even) {
  const struct {
    float value;
    std::uint16_t expected;
  } cases[] = {
      {1, 0x3c00},
      {0x1.001p0F, 0x3c00},  // just below half way
      {0x1.002p0F, 0x3c00},  // half way: to the even one, below
      {0x1.002002p0F, 0x3c01},
      {0x1.006p0F, 0x3c02},  // half way: to the even one, above
      {-0.0F, 0x8000},
      {0x1p-14F, 0x0400},  // the least normal
      {0x1p-24F, 0x0001},  // the least of all
      {0x1p-25F, 0x0000},  // half way to it
      {0x1.000002p-25F, 0x0001},
      {0x1.8p-24F, 0x0002},
      {65504, 0x7bff},
      {65519.996F, 0x7bff},
      {65520, 0x7c00},  // nearer to what would come next
      {1e30F, 0x7c00},
      {-1e30F, 0xfc00},
      {std::numeric_limits<float>::infinity(), 0x7c00},
  };
  for (const auto& c : cases) EXPECT_EQ(to_float16(c.value), c.expected) << c.value;
  EXPECT_TRUE(std::isnan(from_float16(to_float16(from_bits(0x7f800001)))));
}

TEST(Float16, goes_to_float_and_back_unchanged) {
  for (std::uint32_t value = 0; value <= 0xffff; ++value) {
    const auto stored = static_cast<std::uint16_t>(value);
    const float wide = from_float16(stored);
    if (std::isnan(wide)) continue;
    ASSERT_EQ(to_float16(wide), stored);
  }
}

TEST(DataType, rounds_to_its_own_precision) {
  EXPECT_EQ(round_to(DataType::kFloat32, 1.001F), 1.001F);
  EXPECT_EQ(round_to(DataType::kBFloat16, 1.001F), 1.0F);
  EXPECT_EQ(round_to(DataType::kBFloat16, 1.005F), 1.0078125F);
  EXPECT_EQ(round_to(DataType::kFloat16, 1.001F), 1.0009765625F);
  EXPECT_EQ(size_of(DataType::kFloat32), 4);
  EXPECT_EQ(size_of(DataType::kBFloat16), 2);
}

}  // namespace
}  // namespace coxswain::tensor
