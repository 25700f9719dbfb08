#include "trainer/comm/liveness.h"

#include <gtest/gtest.h>

namespace coxswain::comm {
namespace {

using namespace std::chrono_literals;

TEST(Liveness, names_the_most_silent_peer_once_the_deadline_is_past) {
  Liveness::Time now = {};
  Liveness liveness(0, 3, 2s, now);
  for (int tick = 0; tick < 20; ++tick) {
    now += 100ms;
    liveness.heard(1, now);
    EXPECT_FALSE(liveness.check(now)) << "after " << tick;
  }
  now += 100ms;
  const auto silent = liveness.check(now);
  ASSERT_TRUE(silent);
  EXPECT_EQ(silent->rank, 2);
  EXPECT_NEAR(silent->seconds, 2.1, 1e-6);
}

TEST(Liveness, never_accuses_itself) {
  Liveness::Time now = {};
  Liveness liveness(0, 1, 2s, now);
  for (int tick = 0; tick < 100; ++tick) EXPECT_FALSE(liveness.check(now += 100ms));
}

TEST(Liveness, its_own_standstill_is_not_held_against_the_others) {
  Liveness::Time now = {};
  Liveness liveness(0, 2, 2s, now);
  EXPECT_FALSE(liveness.check(now += 100ms));
  EXPECT_FALSE(liveness.check(now += 1h));
  EXPECT_FALSE(liveness.check(now += 100ms));
  for (int tick = 0; tick < 18; ++tick) EXPECT_FALSE(liveness.check(now += 100ms));
  EXPECT_TRUE(liveness.check(now += 100ms));
}

}  // namespace
}  // namespace coxswain::comm
