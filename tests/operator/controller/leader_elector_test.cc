#include "operator/controller/leader_elector.h"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "tests/operator/controller/lease_server.h"

namespace coxswain::controller {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// One elector over a server that fails as told; time passes as it rests.
struct ElectorTrial : kube::Transport {
  test::LeaseServer server;
  Monotonic now = seconds(1000);
  static constexpr int kHangs = -1;
  std::deque<int> failures;  // of the next requests: a code, 0 for none, kHangs until its deadline
  std::vector<std::string> errors;
  std::function<void()> on_rest = [] {};
  std::stop_source stop;

  kube::Response send(const kube::Request& request) override {
    int code = 200;
    if (!failures.empty()) {
      code = failures.front();
      failures.pop_front();
    }
    if (code == kHangs) now += request.deadline;
    if (code == kHangs) return {};
    if (code != 200) return {code, {}, R"({"kind":"Status","reason":"Down"})"};
    return server.handle(request, now);
  }
  kube::Response stream(const kube::Request&, std::stop_token,
                        const std::function<bool(std::string_view)>&) override {
    return {};
  }

  kube::Client client{*this,
                      {.sleep = [](milliseconds) {},
                       .deadline = [this] { return elector.left_of_try(); },
                       .tries = 1}};
  LeaderElector elector{client, options("us")};

  LeaderOptions options(const std::string& identity) {
    LeaderOptions options;
    options.name_space = "system";
    options.identity = identity;
    options.clock.now = [this] { return now; };
    options.clock.wall = [] { return WallTime(seconds(1'800'000'000)); };
    options.clock.random = [] { return 0.5; };
    options.clock.sleep = [this](Monotonic time, std::stop_token) {
      now += time;
      on_rest();
    };
    options.on_error = [this](const kube::ApiError& error) { errors.push_back(to_text(error)); };
    return options;
  }

  // Stops after so many rests from now on.
  void stop_after(int rests) {
    on_rest = [this, rests]() mutable {
      if (--rests == 0) stop.request_stop();
    };
  }

  std::string holder() const { return read_lease(server.object).holder; }
  void hold(const std::string& holder, int version) {
    LeaseRecord record;
    record.holder = holder;
    record.duration_seconds = 15;
    record.transitions = 3;
    record.resource_version = std::to_string(version);
    server.object = to_json(record, "system", "coxswain-operator");
  }
};

TEST(LeaderElector, creates_the_lease_where_there_is_none) {
  ElectorTrial trial;
  EXPECT_FALSE(trial.elector.holds());
  EXPECT_TRUE(trial.elector.acquire(trial.stop.get_token()));
  EXPECT_TRUE(trial.elector.holds());
  EXPECT_EQ(trial.holder(), "us");
  EXPECT_EQ(trial.elector.leader(), "us");
}

TEST(LeaderElector, holds_until_the_renew_deadline_after_the_last_success) {
  ElectorTrial trial;
  ASSERT_TRUE(trial.elector.acquire({}));
  trial.now += milliseconds(9999);
  EXPECT_TRUE(trial.elector.holds());
  trial.now += milliseconds(1);
  EXPECT_FALSE(trial.elector.holds());
}

TEST(LeaderElector, takes_a_released_lease_at_once) {
  ElectorTrial trial;
  trial.hold("", 1);
  EXPECT_TRUE(trial.elector.acquire({}));
  EXPECT_EQ(trial.now, seconds(1000));
  EXPECT_EQ(read_lease(trial.server.object).transitions, 4);
}

TEST(LeaderElector, waits_until_the_holder_has_been_silent_for_its_duration) {
  ElectorTrial trial;
  trial.hold("them", 1);
  EXPECT_TRUE(trial.elector.acquire({}));
  EXPECT_GE(trial.now, seconds(1015));
  EXPECT_LE(trial.now, seconds(1018));
  EXPECT_EQ(trial.holder(), "us");
}

TEST(LeaderElector, follows_a_holder_that_renews) {
  ElectorTrial trial;
  trial.hold("them", 1);
  int renewals = 0;
  trial.on_rest = [&] {
    trial.server.object["spec"]["renewTime"] = std::to_string(++renewals);
    if (renewals == 50) trial.stop.request_stop();
  };
  EXPECT_FALSE(trial.elector.acquire(trial.stop.get_token()));
  EXPECT_FALSE(trial.elector.holds());
  EXPECT_EQ(trial.elector.leader(), "them");
  EXPECT_EQ(trial.holder(), "them");
}

TEST(LeaderElector, renews_until_it_is_stopped_and_then_releases) {
  ElectorTrial trial;
  ASSERT_TRUE(trial.elector.acquire({}));
  trial.stop_after(30);
  EXPECT_TRUE(trial.elector.keep(trial.stop.get_token()));
  EXPECT_GE(trial.now, seconds(1060));
  EXPECT_FALSE(trial.elector.holds());
  EXPECT_EQ(trial.holder(), "");
  EXPECT_EQ(read_lease(trial.server.object).duration_seconds, 1);
  EXPECT_EQ(trial.elector.leader(), "");
}

TEST(LeaderElector, survives_failures_that_are_shorter_than_the_renew_deadline) {
  ElectorTrial trial;
  ASSERT_TRUE(trial.elector.acquire({}));
  trial.failures = {500, 0, 503};
  trial.stop_after(6);
  EXPECT_TRUE(trial.elector.keep(trial.stop.get_token()));
  EXPECT_EQ(trial.errors.size(), 3u);
  EXPECT_EQ(trial.holder(), "");
}

TEST(LeaderElector, a_call_that_hangs_costs_no_leadership) {
  const std::deque<int> reading{ElectorTrial::kHangs}, writing{200, ElectorTrial::kHangs};
  for (const auto& calls : {reading, writing}) {
    ElectorTrial trial;
    ASSERT_TRUE(trial.elector.acquire({}));
    trial.failures = calls;
    int rests = 0;
    trial.on_rest = [&] {
      EXPECT_TRUE(trial.elector.holds()) << "rest " << rests;
      if (++rests == 3) trial.stop.request_stop();
    };
    const Monotonic began = trial.now;
    EXPECT_TRUE(trial.elector.keep(trial.stop.get_token()));
    EXPECT_EQ(rests, 3);
    EXPECT_LE(trial.now - began, seconds(4) + 3 * milliseconds(2400));
    EXPECT_EQ(trial.holder(), "");
  }
}

TEST(LeaderElector, gives_up_when_the_renew_deadline_passes) {
  ElectorTrial trial;
  ASSERT_TRUE(trial.elector.acquire({}));
  trial.failures.assign(100, 500);
  EXPECT_FALSE(trial.elector.keep(trial.stop.get_token()));
  EXPECT_GE(trial.now, seconds(1010));
  EXPECT_LE(trial.now, seconds(1013));
  EXPECT_EQ(trial.holder(), "us") << "it can't be released; the others wait for its end";
}

TEST(LeaderElector, steps_down_at_once_when_another_holds_the_lease) {
  for (const char* holder : {"them", ""}) {
    ElectorTrial trial;
    ASSERT_TRUE(trial.elector.acquire({}));
    trial.on_rest = [&] { trial.hold(holder, 50); };
    trial.failures = {200, 500};  // and it can't be taken back
    EXPECT_FALSE(trial.elector.keep(trial.stop.get_token())) << holder;
    EXPECT_FALSE(trial.elector.holds());
    EXPECT_LE(trial.now, seconds(1003));
  }
}

TEST(LeaderElector, makes_a_deleted_lease_anew) {
  ElectorTrial trial;
  ASSERT_TRUE(trial.elector.acquire({}));
  int rests = 0;
  trial.on_rest = [&] {
    if (++rests == 1) trial.server.object = nullptr;
    if (rests == 2) {
      EXPECT_EQ(trial.holder(), "us");
      trial.stop.request_stop();
    }
  };
  EXPECT_TRUE(trial.elector.keep(trial.stop.get_token()));
}

TEST(LeaderElector, goes_on_after_a_write_whose_answer_got_lost) {
  ElectorTrial trial;
  trial.failures = {200, 0};
  trial.server.handle_late(
      {kube::Method::kPost, "", "",
       to_json({"us", 15, "x", "y", 0, ""}, "system", "coxswain-operator").dump()},
      seconds(1001));
  EXPECT_TRUE(trial.elector.acquire({}));
  EXPECT_EQ(read_lease(trial.server.object).transitions, 0) << "it was ours already";
}

TEST(LeaderElector, a_conflict_is_no_error) {
  ElectorTrial trial;
  trial.hold("", 1);
  trial.failures = {200, 409};
  EXPECT_TRUE(trial.elector.acquire({}));
  EXPECT_TRUE(trial.errors.empty());
}

TEST(LeaderElector, keeps_what_others_wrote_into_the_metadata) {
  ElectorTrial trial;
  trial.hold("", 1);
  trial.server.object["metadata"]["labels"] = {{"team", "a"}};
  ASSERT_TRUE(trial.elector.acquire({}));
  EXPECT_EQ(trial.server.object.at("metadata").at("labels").at("team"), "a");
}

TEST(LeaderElector, stopped_before_it_leads_it_writes_nothing) {
  ElectorTrial trial;
  trial.stop.request_stop();
  EXPECT_FALSE(trial.elector.acquire(trial.stop.get_token()));
  EXPECT_TRUE(trial.server.object.is_null());
}

TEST(LeaderClock, the_real_one_moves_on) {
  const LeaderClock clock = real_leader_clock();
  const Monotonic before = clock.now();
  clock.sleep(milliseconds(2), {});
  EXPECT_GE(clock.now() - before, milliseconds(2));
  std::stop_source stop;
  stop.request_stop();
  clock.sleep(seconds(60), stop.get_token());
  EXPECT_LT(clock.now() - before, seconds(60));
  EXPECT_GE(clock.random(), 0);
  EXPECT_LT(clock.random(), 1);
  EXPECT_GT(clock.wall(), WallTime(seconds(1'700'000'000)));
}

}  // namespace

}  // namespace coxswain::controller
