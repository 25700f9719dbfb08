#include "operator/controller/work_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace coxswain::controller {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLong{60'000};  // nobody waits for it

TEST(WorkQueue, gives_what_was_added_and_when) {
  WorkQueue queue;
  const auto before = steady_clock::now();
  queue.add("a");
  EXPECT_EQ(queue.size(), 1u);
  const auto item = queue.get({});
  ASSERT_TRUE(item);
  EXPECT_EQ(item->key, "a");
  EXPECT_GE(item->added, before);
  EXPECT_LE(item->added, steady_clock::now());
  EXPECT_EQ(queue.size(), 0u);
}

TEST(WorkQueue, wakes_a_worker_that_waits) {
  WorkQueue queue;
  std::string got;
  {
    std::jthread worker([&] { got = queue.get({})->key; });
    queue.add("a");
  }
  EXPECT_EQ(got, "a");
}

TEST(WorkQueue, wakes_a_worker_when_a_key_that_it_works_on_comes_again) {
  WorkQueue queue;
  queue.add("a");
  ASSERT_TRUE(queue.get({}));
  queue.add("a");
  std::string got;
  {
    std::jthread worker([&] { got = queue.get({})->key; });
    queue.done("a");
  }
  EXPECT_EQ(got, "a");
}

TEST(WorkQueue, gives_a_key_when_its_time_has_come_not_before) {
  WorkQueue queue;
  const auto before = steady_clock::now();
  queue.add_after("late", milliseconds(40));
  queue.add_after("early", milliseconds(10));
  EXPECT_EQ(queue.size(), 0u);
  const auto early = queue.get({});
  ASSERT_TRUE(early);
  EXPECT_EQ(early->key, "early");
  EXPECT_GE(steady_clock::now() - before, milliseconds(10));
  EXPECT_GE(early->added - before, milliseconds(10));
  const auto late = queue.get({});
  ASSERT_TRUE(late);
  EXPECT_EQ(late->key, "late");
  EXPECT_GE(steady_clock::now() - before, milliseconds(40));
}

TEST(WorkQueue, an_earlier_time_wakes_those_who_wait_for_a_later_one) {
  WorkQueue queue;
  queue.add_after("never", kLong);
  std::mutex mutex;
  std::vector<std::string> got;
  const auto work = [&] {
    const auto item = queue.get({});
    const std::lock_guard lock(mutex);
    got.push_back(item->key);
  };
  const auto before = steady_clock::now();
  {
    std::jthread first(work), second(work);
    queue.add_after("b", milliseconds(5));
    queue.add("a");
  }
  EXPECT_LT(steady_clock::now() - before, kLong);
  std::sort(got.begin(), got.end());
  EXPECT_EQ(got, (std::vector<std::string>{"a", "b"}));
}

TEST(WorkQueue, a_delay_of_nothing_is_now) {
  WorkQueue queue;
  queue.add_after("a", milliseconds(0));
  queue.add_after("b", milliseconds(-5));
  EXPECT_EQ(queue.size(), 2u);
}

TEST(WorkQueue, a_failure_in_a_row_waits_longer_until_forgotten) {
  WorkQueue queue;
  for (int failures = 0; failures < 4; ++failures) {
    const auto before = steady_clock::now();
    queue.add_rate_limited("a");
    const auto item = queue.get({});
    ASSERT_TRUE(item);
    const auto least = milliseconds(9) * (1 << failures) / 2;  // 4.5 ms, 9 ms, 18 ms, 36 ms
    EXPECT_GE(item->added - before, least) << failures;
    queue.done("a");
  }
  queue.forget("a");
  queue.add_rate_limited("a");
  const auto forgotten = steady_clock::now();
  const auto item = queue.get({});
  EXPECT_LE(item->added - forgotten, milliseconds(5));
}

TEST(WorkQueue, asked_to_stop_gives_nothing_though_keys_are_due) {
  WorkQueue queue;
  queue.add("a");
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FALSE(queue.get(stop.get_token()));
  EXPECT_EQ(queue.size(), 1u);
}

TEST(WorkQueue, asked_to_stop_wakes_those_who_wait) {
  WorkQueue queue;
  queue.add_after("never", kLong);
  std::atomic<int> ended = 0;
  std::stop_source stop;
  {
    std::vector<std::jthread> workers;
    for (int i = 0; i < 3; ++i)
      workers.emplace_back([&] { ended += queue.get(stop.get_token()) ? 0 : 1; });
    stop.request_stop();
  }
  EXPECT_EQ(ended, 3);
}

TEST(WorkQueue, shut_down_gives_what_is_due_and_nothing_after) {
  WorkQueue queue;
  queue.add("a");
  queue.add("b");
  queue.add_after("never", kLong);
  queue.shut_down();
  queue.add("c");
  queue.add_after("c", milliseconds(1));
  queue.add_rate_limited("c");
  EXPECT_EQ(queue.get({})->key, "a");
  EXPECT_EQ(queue.get({})->key, "b");
  EXPECT_FALSE(queue.get({}));
}

TEST(WorkQueue, shut_down_wakes_those_who_wait) {
  WorkQueue queue;
  std::atomic<int> ended = 0;
  {
    std::vector<std::jthread> workers;
    for (int i = 0; i < 3; ++i) workers.emplace_back([&] { ended += queue.get({}) ? 0 : 1; });
    queue.shut_down();
  }
  EXPECT_EQ(ended, 3);
}

TEST(WorkQueue, many_threads_never_share_a_key_and_serve_every_wish) {
  constexpr int kKeys = 7, kAdders = 3, kWishes = 2'000;
  WorkQueue queue;
  struct Key {
    std::atomic<int> wished = 0;  // counted before it is added
    std::atomic<int> served = 0;  // how many wishes the last pass saw when it began
    std::atomic<int> workers = 0;
  };
  std::map<std::string, Key> keys;
  for (int i = 0; i < kKeys; ++i) keys[std::to_string(i)];
  std::atomic<int> shared = 0;
  {
    std::vector<std::jthread> workers;
    for (int i = 0; i < 4; ++i) {
      workers.emplace_back([&] {
        while (const auto item = queue.get({})) {
          Key& key = keys.at(item->key);
          if (key.workers.fetch_add(1) != 0) ++shared;
          key.served = key.wished.load();
          --key.workers;
          queue.done(item->key);
        }
      });
    }
    {
      std::vector<std::jthread> adders;
      for (int i = 0; i < kAdders; ++i) {
        adders.emplace_back([&, i] {
          for (int wish = 0; wish < kWishes; ++wish) {
            const std::string key = std::to_string((wish + i) % kKeys);
            ++keys.at(key).wished;
            if (wish % 5 == 0)
              queue.add_after(key, std::chrono::microseconds(wish % 50));
            else
              queue.add(key);
          }
        });
      }
    }
    // Whatever waits for its time is due by then.
    for (const auto& [key, state] : keys) queue.add_after(key, milliseconds(2));
    std::this_thread::sleep_for(milliseconds(10));
    queue.shut_down();
  }
  EXPECT_EQ(shared, 0);
  for (const auto& [key, state] : keys) EXPECT_EQ(state.served, state.wished) << key;
}

}  // namespace

}  // namespace coxswain::controller
