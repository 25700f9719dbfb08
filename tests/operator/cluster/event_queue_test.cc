#include "operator/cluster/event_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

namespace coxswain::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// A queue whose sends take no time but that of a clock of its own.
struct Trial {
  std::string told;
  int dropped = 0;
  milliseconds takes{0};
  steady_clock::time_point now;
  bool can_be_told = true;

  EventQueue queue{{.most = 3,
                    .flush = milliseconds(1000),
                    .send =
                        [this](const job::Json& event) {
                          told += event.get<std::string>();
                          now += takes;
                          return can_be_told;
                        },
                    .dropped = [this] { ++dropped; },
                    .now = [this] { return now; }}};

  void run_to_its_end() {
    std::stop_source stop;
    stop.request_stop();
    queue.run(stop.get_token());
  }
};

TEST(EventQueue, tells_what_waits_in_its_order_when_it_stops) {
  Trial trial;
  for (const char* event : {"a", "b", "c"}) trial.queue.add(event);
  EXPECT_EQ(trial.told, "") << "nobody who adds waits for a call";
  trial.run_to_its_end();
  EXPECT_EQ(trial.told, "abc");
  EXPECT_EQ(trial.dropped, 0);
}

TEST(EventQueue, drops_and_counts_what_is_too_much) {
  Trial trial;
  for (const char* event : {"a", "b", "c", "d", "e"}) trial.queue.add(event);
  EXPECT_EQ(trial.dropped, 2);
  trial.run_to_its_end();
  EXPECT_EQ(trial.told, "abc");
}

TEST(EventQueue, stops_in_time_when_calls_take_long) {
  Trial trial;
  trial.takes = milliseconds(600);
  for (const char* event : {"a", "b", "c"}) trial.queue.add(event);
  trial.run_to_its_end();
  EXPECT_EQ(trial.told, "ab");
  EXPECT_EQ(trial.dropped, 1);
}

TEST(EventQueue, counts_what_could_not_be_told) {
  Trial trial;
  trial.can_be_told = false;
  trial.queue.add("a");
  trial.run_to_its_end();
  EXPECT_EQ(trial.dropped, 1);
}

TEST(EventQueue, adding_never_waits_for_a_call_that_hangs) {
  std::atomic<bool> hangs{true};
  std::atomic<int> sent{0};
  EventQueue queue({.send = [&](const job::Json&) {
    ++sent;
    hangs.wait(true);
    return true;
  }});
  std::jthread sender([&](std::stop_token stop) { queue.run(stop); });
  queue.add("a");
  while (sent == 0) std::this_thread::yield();
  queue.add("b");  // would never come back
  EXPECT_EQ(sent, 1);
  hangs = false;
  hangs.notify_all();
  while (sent < 2) std::this_thread::yield();
}

}  // namespace
}  // namespace coxswain::cluster
