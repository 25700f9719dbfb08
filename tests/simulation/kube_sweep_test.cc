#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>

#include "tests/simulation/kube_simulation.h"
#include "tests/simulation/life_steps.h"
#include "tests/simulation/random.h"
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

template <class List>
const auto& one_of(Random& random, const List& list) {
  return list[static_cast<std::size_t>(random.below(static_cast<int>(list.size())))];
}

job::Seconds draw_skew(Random& random) {
  return job::Seconds(one_of(random, std::to_array<int>({0, 0, -30, 30, -3600, 3600})));
}

FaultPlan draw_fault(Random& random, const Undisturbed& life) {
  constexpr auto kOfRequests = std::to_array<Fault>({Fault::kCrash, Fault::kError, Fault::kError,
                                                     Fault::kHang, Fault::kHang, Fault::kHang,
                                                     Fault::kZombie, Fault::kStep});
  constexpr auto kOfWatches =
      std::to_array<Fault>({Fault::kDelay, Fault::kRelist, Fault::kLose, Fault::kRepeat});
  constexpr auto kCodes = std::to_array<int>({0, 0, 403, 404, 409, 410, 422, 429, 500, 503});
  FaultPlan plan;
  if (random.chance(70)) {
    plan.fault = one_of(random, kOfRequests);
    plan.at = random.below(requests_of(life));
    plan.point = static_cast<Point>(random.below(3));
    plan.code = one_of(random, kCodes);
    plan.tries = random.between(1, 4);
    plan.seconds = random.between(1, 60);
    if (plan.fault == Fault::kStep && random.chance(50)) plan.seconds = -plan.seconds;
    plan.fenced = random.chance(50);
  } else {
    plan.fault = one_of(random, kOfWatches);
    plan.watched = random.chance(70) ? "pods" : "trainingjobs";
    const auto count = life.outcome.revisions.find(plan.watched);
    plan.at = count == life.outcome.revisions.end() ? 0 : random.below(count->second);
    plan.seconds = random.between(1, 90);
  }
  return plan;
}

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

TEST(KubeSweep, every_request_hangs) {
  std::vector<Case> cases;
  for (const Undisturbed& life : undisturbed())
    for (int at = 0; is_chosen(life) && at < requests_of(life); ++at) {
      const auto add = [&](Point point, int tries, int seconds) {
        cases.push_back({&life,
                         {.fault = Fault::kHang,
                          .at = at,
                          .point = point,
                          .tries = tries,
                          .seconds = seconds}});
      };
      add(Point::kBefore, 1, 0);
      add(Point::kApplied, 3, 0);
      if (!is_write(life.outcome.requests[at])) continue;
      add(Point::kBefore, 3, 0);
      add(Point::kApplied, 1, 0);
      for (const int seconds : {2, 40}) add(Point::kReplied, 3, seconds);
    }
  sweep(cases);
}

TEST(KubeSweep, the_clock_is_set_at_every_write) {
  std::vector<Case> cases;
  for (const Undisturbed& life : undisturbed())
    for (int at = 0; is_chosen(life) && at < requests_of(life); ++at)
      for (const int seconds : {-120, 120})
        if (is_write(life.outcome.requests[at]))
          cases.push_back({&life, {.fault = Fault::kStep, .at = at, .seconds = seconds}});
  sweep(cases);
}

// Two or three things go wrong, and the clock is off: the laws hold, and the job comes to its end.
// Which end may depend on what was never seen.
TEST(KubeSeeds, no_law_is_broken_by_any_seed) {
  constexpr std::uint64_t kSeeds = 500;
  const std::uint64_t first = flags().seed_given ? flags().seed : 1;
  const std::uint64_t last = flags().seed_given ? flags().seed : kSeeds;
  int happened = 0;
  for (std::uint64_t seed = first; seed <= last && !HasFailure(); ++seed) {
    Random random(seed);
    const Undisturbed& life = one_of(random, undisturbed());
    Workload workload = life.workload;
    workload.skew = draw_skew(random);
    FaultPlan plan = draw_fault(random, life);
    for (int i = random.between(1, 2); i > 0; --i)
      plan.besides.push_back(draw_fault(random, life));
    const Outcome outcome = simulate(workload, plan, Mutation::kNone, flags().seed_given);
    happened += outcome.happened;
    EXPECT_FALSE(outcome.breach)
        << workload.name << ", " << to_text(plan) << ", the clock is off by "
        << workload.skew.count() << " s:\n  " << *outcome.breach
        << "\n  replay: test_simulation --gtest_filter=KubeSeeds.no_law* --seed " << seed;
  }
  if (flags().seed_given) return;
  fmt::print("{} seeds, all faults of {} of them happened\n", kSeeds, happened);
  EXPECT_GE(happened, static_cast<int>(kSeeds / 2));
}

// All that is dated is dated by one clock.
TEST(KubeSeeds, the_clock_may_be_an_hour_off) {
  for (const Undisturbed& life : undisturbed())
    for (const int skew : {-3600, 3600}) {
      Workload workload = life.workload;
      workload.skew = job::Seconds(skew);
      const Outcome outcome = simulate(workload, {});
      auto wrong = outcome.breach;
      if (!wrong) wrong = difference(life.outcome, outcome, {});
      EXPECT_FALSE(wrong) << workload.name << ", " << skew << ": " << *wrong;
    }
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
