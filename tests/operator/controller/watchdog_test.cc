#include "operator/controller/watchdog.h"

#include <gtest/gtest.h>

namespace coxswain::controller {
namespace {

using std::chrono::seconds;

struct WatchdogTest : testing::Test {
  std::chrono::steady_clock::time_point now;
  Watchdog watchdog{[this] { return now; }};
};

TEST_F(WatchdogTest, tells_who_does_not_come_to_the_end_of_a_turn) {
  watchdog.turn("pass over ns/a");
  watchdog.turn("watch of Pods");
  now += seconds(600);
  EXPECT_EQ(watchdog.stuck(), "");
  watchdog.turn("watch of Pods");
  now += seconds(1);
  EXPECT_EQ(watchdog.stuck(), "pass over ns/a for 601 s");
  now += seconds(600);
  EXPECT_EQ(watchdog.stuck(), "pass over ns/a for 1201 s, watch of Pods for 601 s");
}

TEST_F(WatchdogTest, who_rests_may_do_so_for_as_long_as_it_likes) {
  watchdog.turn("pass over ns/a");
  watchdog.rest("pass over ns/a");
  watchdog.rest("never heard of");
  now += std::chrono::hours(24);
  EXPECT_EQ(watchdog.stuck(), "");
}

TEST_F(WatchdogTest, a_turn_that_came_to_its_end_late_is_forgiven) {
  watchdog.turn("pass over ns/a");
  now += seconds(700);
  EXPECT_NE(watchdog.stuck(), "");
  watchdog.rest("pass over ns/a");
  EXPECT_EQ(watchdog.stuck(), "");
}

}  // namespace
}  // namespace coxswain::controller
