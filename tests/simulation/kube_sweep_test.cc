#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>

#include "tests/simulation/kube_simulation.h"
#include "tests/simulation/life_steps.h"
#include "tests/support/test_flags.h"

// Every fault at every point of every workload: the production operator (client, stores, cluster,
// reconciler, planner) must keep the laws and come to the same end as undisturbed, with the same
// creates and deletes.
namespace coxswain::test {

namespace {

constexpr int kMostFailures = 10;  // of one sweep, that are told

struct Undisturbed {
  Workload workload;
  Outcome outcome;
};

const std::vector<Undisturbed>& undisturbed() {
  static const std::vector<Undisturbed> all = [] {
    std::vector<Undisturbed> made;
    for (Workload& workload : workloads()) {
      Outcome outcome = simulate(workload, {});
      made.push_back({std::move(workload), std::move(outcome)});
    }
    return made;
  }();
  return all;
}

struct Case {
  const Undisturbed* life;
  FaultPlan plan;
};

// Runs all cases, or the one that --seed names.
void sweep(const std::vector<Case>& cases) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const auto begin = std::chrono::steady_clock::now();
  int failures = 0;
  int happened = 0;
  for (std::size_t i = 0; i < cases.size() && failures < kMostFailures; ++i) {
    if (flags().seed_given && flags().seed != i) continue;
    const auto& [life, plan] = cases[i];
    const Outcome outcome = simulate(life->workload, plan, Mutation::kNone, flags().seed_given);
    happened += outcome.happened;
    auto wrong = outcome.breach;
    if (!wrong) wrong = difference(life->outcome, outcome, plan);
    if (!wrong) continue;
    ++failures;
    const bool of_request = plan.watched.empty() && plan.at >= 0;
    ADD_FAILURE() << life->workload.name << ", " << to_text(plan)
                  << (of_request ? " (" + life->outcome.requests[plan.at] + ")" : "") << ":\n  "
                  << *wrong
                  << "\n  replay: test_simulation --gtest_filter=" << test->test_suite_name() << "."
                  << test->name() << " --seed " << i;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (flags().seed_given) return;
  fmt::print("{} plans, {} of them met their fault, {:.1f} s\n", cases.size(), happened,
             took.count());
  EXPECT_EQ(happened, static_cast<int>(cases.size()));
}

// Lives in which everything happens that an operator does; for faults of which there are many.
bool is_chosen(const Undisturbed& life) {
  constexpr auto kChosen = std::to_array<std::string_view>(
      {"mpi_2", "fails_once", "node_lost", "made_again", "ttl", "quota"});
  return std::ranges::find(kChosen, life.workload.name) != kChosen.end();
}

int requests_of(const Undisturbed& life) { return static_cast<int>(life.outcome.requests.size()); }

bool is_write(const std::string& request) { return !request.starts_with("GET"); }

}  // namespace

TEST(KubeSweep, every_workload_comes_to_its_end_undisturbed) {
  for (const Undisturbed& life : undisturbed())
    EXPECT_FALSE(life.outcome.breach) << life.workload.name << ": " << *life.outcome.breach;
  EXPECT_GE(undisturbed().size(), 24u);
}

TEST(KubeSweep, crash_at_every_request) {
  std::vector<Case> cases;
  for (const Undisturbed& life : undisturbed())
    for (int at = 0; at < requests_of(life); ++at)
      for (const Point point : {Point::kBefore, Point::kApplied, Point::kReplied})
        cases.push_back({&life, {.fault = Fault::kCrash, .at = at, .point = point}});
  sweep(cases);
}

TEST(KubeSweep, every_error_at_every_request) {
  std::vector<Case> cases;
  for (const Undisturbed& life : undisturbed())
    for (int at = 0; is_chosen(life) && at < requests_of(life); ++at) {
      const auto add = [&](int code, Point point, int tries) {
        cases.push_back(
            {&life,
             {.fault = Fault::kError, .at = at, .point = point, .code = code, .tries = tries}});
      };
      // Those that the client doesn't try again, then those that it does until it gives up.
      for (const int code : {403, 404, 409, 410, 422}) add(code, Point::kBefore, 1);
      for (const int code : {0, 429, 500, 503}) add(code, Point::kBefore, 4);
      add(0, Point::kApplied, 1);
      add(0, Point::kApplied, 4);
    }
  sweep(cases);
}

TEST(KubeSweep, zombie_at_every_write) {
  std::vector<Case> cases;
  for (const Undisturbed& life : undisturbed())
    for (int at = 0; at < requests_of(life); ++at) {
      if (!is_write(life.outcome.requests[at])) continue;
      for (const auto& [fenced, seconds] : {std::pair(true, 30), std::pair(false, 5)})
        cases.push_back(
            {&life, {.fault = Fault::kZombie, .at = at, .seconds = seconds, .fenced = fenced}});
    }
  sweep(cases);
}

TEST(KubeSweep, every_event_late_lost_or_repeated) {
  std::vector<Case> cases;
  for (const Undisturbed& life : undisturbed())
    for (const char* watched : {"pods", "trainingjobs"}) {
      if (life.workload.name.ends_with("_8")) continue;  // as those of two, at four times the cost
      const auto found = life.outcome.revisions.find(watched);
      const int count = found == life.outcome.revisions.end() ? 0 : found->second;
      for (int at = 0; at < count; ++at) {
        const auto add = [&](Fault fault, int seconds) {
          cases.push_back(
              {&life, {.fault = fault, .at = at, .watched = watched, .seconds = seconds}});
        };
        add(Fault::kDelay, 20);
        add(Fault::kRelist, 20);
        if (!is_chosen(life)) continue;
        add(Fault::kDelay, 90);
        add(Fault::kLose, 30);
        add(Fault::kRepeat, 0);
      }
    }
  sweep(cases);
}

// Both come before the operator looks: the cause is the pod's own, not that it vanished.
TEST(KubeLife, pod_that_fails_and_vanishes_is_counted_by_its_end) {
  const Workload life = to_success("fails_and_vanishes", mpi(2),
                                   {runs(0, 2,
                                         [](Scene& scene) {
                                           scene.end_pod(worker(1), 137, "OOMKilled");
                                           scene.delete_pod(worker(1));
                                         })},
                                   1, 2);
  const Outcome outcome = simulate(life, {});
  EXPECT_FALSE(outcome.breach) << *outcome.breach;
  const Json restarts = outcome.end.at("/jobs/mnist/restarts"_json_pointer);
  EXPECT_EQ(restarts.at("failure"), 1) << restarts;
  EXPECT_EQ(restarts.at("preemption"), 0) << restarts;
}

}  // namespace coxswain::test
