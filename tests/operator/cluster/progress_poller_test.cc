#include "operator/cluster/progress_poller.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace coxswain::cluster {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A poller whose endpoints answer what the test says; polls come from several threads.
struct Bench {
  std::mutex mutex;
  std::map<std::string, std::string> answers;  // by address
  std::vector<std::string> asked;
  std::vector<std::string> news;
  ProgressPoller poller{{.get =
                             [this](const std::string& address, std::uint16_t) {
                               const std::lock_guard lock(mutex);
                               asked.push_back(address);
                               const auto found = answers.find(address);
                               return found == answers.end() ? std::nullopt
                                                             : std::optional(found->second);
                             },
                         .news =
                             [this](const std::string& key) {
                               const std::lock_guard lock(mutex);
                               news.push_back(key);
                             }}};
  ProgressPoller::Clock::time_point start = ProgressPoller::Clock::now() + seconds(1);

  std::vector<std::string> asked_at(seconds after) {
    asked.clear();
    poller.poll_due(start + after);
    return asked;
  }
};

TEST(ProgressPoller, tells_what_rank_0_said_and_wakes_its_job_when_it_is_new) {
  Bench bench;
  bench.answers["10.0.0.1"] = R"({"progress":{"epoch":3,"step":40,"time":"t"}})";
  EXPECT_FALSE(bench.poller.ask("u", "ns/a", 0, "10.0.0.1").progress);
  EXPECT_THAT(bench.asked_at(seconds(0)), ElementsAre("10.0.0.1"));
  EXPECT_THAT(bench.news, ElementsAre("ns/a"));
  ASSERT_TRUE(bench.poller.ask("u", "ns/a", 0, "10.0.0.1").progress);
  EXPECT_EQ(bench.poller.ask("u", "ns/a", 0, "10.0.0.1").progress->epoch, 3);
  EXPECT_THAT(bench.asked_at(seconds(9)), IsEmpty()) << "not before 10 s are over";
  EXPECT_THAT(bench.asked_at(seconds(10)), ElementsAre("10.0.0.1"));
  EXPECT_THAT(bench.news, ElementsAre("ns/a")) << "nothing new the second time";
}

TEST(ProgressPoller, asks_an_endpoint_that_is_silent_less_and_less) {
  Bench bench;
  bench.poller.ask("u", "ns/a", 0, "10.0.0.1");
  std::vector<int> times;
  for (int second = 0; second < 700; ++second)
    if (!bench.asked_at(seconds(second)).empty()) times.push_back(second);
  EXPECT_THAT(times, ElementsAre(0, 20, 60, 140, 300, 600));
}

TEST(ProgressPoller, asks_no_more_once_the_address_is_gone) {
  Bench bench;
  bench.poller.ask("u", "ns/a", 0, "10.0.0.1");
  bench.poller.ask("u", "ns/a", 0, "");
  EXPECT_THAT(bench.asked_at(seconds(100)), IsEmpty());
  bench.poller.ask("u", "ns/a", 0, "10.0.0.2");
  EXPECT_THAT(bench.asked_at(seconds(101)), ElementsAre("10.0.0.2"));
  bench.poller.forget("u");
  EXPECT_THAT(bench.asked_at(seconds(1000)), IsEmpty());
}

TEST(ProgressPoller, forgets_what_an_attempt_said_once_it_is_over) {
  Bench bench;
  bench.answers["10.0.0.1"] = R"({"progress":{"epoch":3,"step":40,"time":"t"}})";
  bench.poller.ask("u", "ns/a", 0, "10.0.0.1");
  bench.asked_at(seconds(0));
  EXPECT_TRUE(bench.poller.ask("u", "ns/a", 0, "").progress) << "it may be about to end";
  EXPECT_FALSE(bench.poller.ask("u", "ns/a", 1, "").progress);
  EXPECT_FALSE(bench.poller.ask("u", "ns/a", 1, "10.0.0.1").progress);
}

TEST(ProgressPoller, asks_twenty_a_second_the_longest_waiting_first) {
  Bench bench;
  for (int i = 0; i < 50; ++i)
    bench.poller.ask(fmt::format("u{}", i), fmt::format("ns/{}", i), 0,
                     fmt::format("10.0.0.{}", i));
  EXPECT_EQ(bench.asked_at(seconds(0)).size(), 20u);
  EXPECT_EQ(bench.asked_at(seconds(1)).size(), 20u);
  EXPECT_EQ(bench.asked_at(seconds(2)).size(), 10u);
}

TEST(ProgressPoller, takes_no_answer_that_is_none) {
  Bench bench;
  bench.answers["10.0.0.1"] = "<html>";
  bench.poller.ask("u", "ns/a", 0, "10.0.0.1");
  EXPECT_THAT(bench.asked_at(seconds(0)), ElementsAre("10.0.0.1"));
  EXPECT_THAT(bench.news, IsEmpty());
}

}  // namespace
}  // namespace coxswain::cluster
