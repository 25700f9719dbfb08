#include "operator/controller/key_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "tests/support/test_flags.h"

namespace coxswain::controller {

namespace {

using std::chrono::milliseconds;

KeySchedule::Time at(int ms) { return KeySchedule::Time(milliseconds(ms)); }

// Takes all that is due: "a@3 b@5 ", with the times in ms at which they became due.
std::string take_all(KeySchedule& schedule) {
  std::string taken;
  while (const auto item = schedule.take()) {
    const auto ms = std::chrono::duration_cast<milliseconds>(item->added.time_since_epoch());
    taken += item->key + "@" + std::to_string(ms.count()) + " ";
  }
  return taken;
}

TEST(KeySchedule, gives_keys_in_the_order_in_which_they_became_due) {
  KeySchedule schedule;
  schedule.add("b", at(1));
  schedule.add("a", at(2));
  schedule.add("b", at(3));
  EXPECT_EQ(schedule.num_due(), 2u);
  EXPECT_EQ(take_all(schedule), "b@1 a@2 ");
}

TEST(KeySchedule, gives_a_key_to_one_worker_at_a_time) {
  KeySchedule schedule;
  schedule.add("a", at(1));
  EXPECT_EQ(take_all(schedule), "a@1 ");
  schedule.add("a", at(2));
  schedule.add("a", at(3));
  EXPECT_EQ(take_all(schedule), "");
  EXPECT_EQ(schedule.num_due(), 0u);
  schedule.done("a");
  EXPECT_EQ(take_all(schedule), "a@2 ");
  schedule.done("a");
  EXPECT_EQ(take_all(schedule), "");
}

TEST(KeySchedule, puts_a_key_that_comes_again_behind_those_that_wait) {
  KeySchedule schedule;
  schedule.add("a", at(1));
  ASSERT_EQ(take_all(schedule), "a@1 ");
  schedule.add("a", at(2));
  schedule.add("b", at(3));
  schedule.done("a");
  EXPECT_EQ(take_all(schedule), "b@3 a@2 ");
}

TEST(KeySchedule, done_without_work_changes_nothing) {
  KeySchedule schedule;
  schedule.done("a");
  schedule.add("a", at(1));
  schedule.done("a");
  EXPECT_EQ(take_all(schedule), "a@1 ");
}

TEST(KeySchedule, the_earliest_of_several_times_stands) {
  KeySchedule schedule;
  EXPECT_EQ(schedule.next_time(), std::nullopt);
  schedule.add_at("a", at(50));
  schedule.add_at("a", at(20));
  schedule.add_at("a", at(90));
  EXPECT_EQ(schedule.next_time(), at(20));
  schedule.advance(at(19));
  EXPECT_EQ(take_all(schedule), "");
  schedule.advance(at(20));
  EXPECT_EQ(take_all(schedule), "a@20 ");
  EXPECT_EQ(schedule.next_time(), std::nullopt);
  schedule.done("a");
  schedule.advance(at(1000));
  EXPECT_EQ(take_all(schedule), "");
}

TEST(KeySchedule, a_key_keeps_its_time_when_it_is_added_before) {
  KeySchedule schedule;
  schedule.add_at("a", at(50));
  schedule.add("a", at(10));
  EXPECT_EQ(take_all(schedule), "a@10 ");
  schedule.done("a");
  schedule.advance(at(60));
  EXPECT_EQ(take_all(schedule), "a@50 ");
}

TEST(KeySchedule, what_waited_becomes_due_in_the_order_of_its_times) {
  KeySchedule schedule;
  schedule.add_at("a", at(30));
  schedule.add_at("b", at(10));
  schedule.add_at("c", at(20));
  schedule.advance(at(40));
  EXPECT_EQ(take_all(schedule), "b@10 c@20 a@30 ");
}

TEST(KeySchedule, random_use_loses_no_key_and_gives_none_to_two) {
  const std::uint64_t seed = test::flags().seed_given ? test::flags().seed : 20261121;
  SCOPED_TRACE("--seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const std::vector<std::string> keys{"a", "b", "c", "d", "e"};
  KeySchedule schedule;
  std::set<std::string> working;
  std::map<std::string, int> wanted;  // the last time at which somebody wanted a pass from then on
  std::map<std::string, int> begun;
  for (int now = 1; now < 20'000; ++now) {
    const std::string& key = keys[random() % keys.size()];
    switch (random() % 4) {
      case 0:
        schedule.add(key, at(now));
        wanted[key] = now;
        break;
      case 1: {
        const int when = now + static_cast<int>(random() % 20);
        schedule.add_at(key, at(when));
        wanted[key] = now;
        break;
      }
      case 2:
        schedule.advance(at(now));
        if (const auto item = schedule.take()) {
          ASSERT_TRUE(working.insert(item->key).second) << item->key;
          begun[item->key] = now;
        }
        break;
      default:
        if (working.erase(key) > 0) schedule.done(key);
    }
  }
  for (const std::string& key : std::set<std::string>(working)) schedule.done(key);
  schedule.advance(at(30'000));
  while (const auto item = schedule.take()) begun[item->key] = 30'000;
  for (const std::string& key : keys) EXPECT_GE(begun[key], wanted[key]) << key;
}

TEST(RetryDelay, doubles_from_5_ms_to_60_s_less_a_tenth_at_random) {
  struct Case {
    int failures;
    double random;
    double ms;
  };
  for (const Case& c :
       {Case{0, 0, 5}, Case{0, 0.5, 4.75}, Case{1, 0, 10}, Case{2, 0, 20}, Case{10, 0, 5120},
        Case{13, 0, 40'960}, Case{14, 0, 60'000}, Case{14, 0.999999999, 54'000},
        Case{1'000'000, 0, 60'000}, Case{-1, 0, 5}}) {
    const std::chrono::duration<double, std::milli> delay = retry_delay(c.failures, c.random);
    EXPECT_NEAR(delay.count(), c.ms, c.ms * 1e-6) << c.failures << " " << c.random;
  }
}

}  // namespace

}  // namespace coxswain::controller
