#include "trainer/compress/balance.h"

#include <gtest/gtest.h>

namespace coxswain::compress {
namespace {

// Two steps: a megabyte spared in each, at the speed of the pulls.
Measured measured(double coding_seconds, double network_seconds) {
  return {.steps = 2,
          .encode_seconds = coding_seconds / 2,
          .decode_seconds = coding_seconds / 8,
          .decodings = 4,
          .bytes_spared = 2'000'000,
          .network_bytes = 4'000'000,
          .network_seconds = network_seconds};
}

TEST(Balance, weighs_coding_against_the_bytes_that_are_spared) {
  const auto slow_network = balance_of(measured(0.02, 0.4));
  ASSERT_TRUE(slow_network);
  EXPECT_DOUBLE_EQ(slow_network->taken, 0.01);
  EXPECT_DOUBLE_EQ(slow_network->spared, 0.1);
  EXPECT_TRUE(slow_network->pays());
  const auto fast_network = balance_of(measured(0.02, 0.004));
  ASSERT_TRUE(fast_network);
  EXPECT_DOUBLE_EQ(fast_network->spared, 0.001);
  EXPECT_FALSE(fast_network->pays());
}

TEST(Balance, is_not_known_without_a_speed) {
  EXPECT_FALSE(balance_of({}));
  EXPECT_FALSE(balance_of(measured(1, 0)));
  Measured at_once = measured(1, 1);
  at_once.network_bytes = 0;
  EXPECT_FALSE(balance_of(at_once));
}

}  // namespace
}  // namespace coxswain::compress
