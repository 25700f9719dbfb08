#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/simulation/kube_simulation.h"

namespace coxswain::test {

namespace {

struct KubeMutant {
  const char* name;
  Mutation mutation;
  std::vector<std::string> lives;  // of which one at least brings it to light
};

std::vector<FaultPlan> plans_for(const Outcome& outcome) {
  std::vector<FaultPlan> plans = {{}};
  for (int at = 0; at < static_cast<int>(outcome.requests.size()); ++at) {
    plans.push_back({.fault = Fault::kCrash, .at = at, .point = Point::kApplied});
    plans.push_back({.fault = Fault::kZombie, .at = at, .seconds = 30, .fenced = true});
    plans.push_back({.fault = Fault::kZombie, .at = at, .seconds = 5, .fenced = false});
  }
  for (const char* watched : {"pods", "trainingjobs"}) {
    const auto found = outcome.revisions.find(watched);
    for (int at = 0; found != outcome.revisions.end() && at < found->second; ++at)
      for (const Fault fault : {Fault::kDelay, Fault::kRelist})
        plans.push_back({.fault = fault, .at = at, .watched = watched, .seconds = 20});
  }
  for (int at = 0; at < static_cast<int>(outcome.requests.size()); ++at)
    plans.push_back({.fault = Fault::kHang, .at = at});
  return plans;
}

// The first plan that finds the mutant out, of those in which nothing is wrong without it.
std::optional<std::string> find_out(const KubeMutant& mutant) {
  for (const Workload& workload : workloads()) {
    if (std::ranges::find(mutant.lives, workload.name) == mutant.lives.end()) continue;
    const Outcome undisturbed = simulate(workload, {});
    for (const FaultPlan& plan : plans_for(undisturbed)) {
      const Outcome outcome = simulate(workload, plan, mutant.mutation);
      auto wrong = outcome.breach;
      if (!wrong) wrong = difference(undisturbed, outcome, plan);
      if (wrong) return fmt::format("{}, {}: {}", workload.name, to_text(plan), *wrong);
    }
  }
  return std::nullopt;
}

}  // namespace

// The sweep bites: each deliberate bug of the protocol is found out by some fault in some life.
TEST(KubeMutants, each_is_found_out) {
  const std::vector<KubeMutant> mutants = {
      {"deletes pods without their uid", Mutation::kNoUidOnDelete, {"fails_once"}},
      {"stores a status over a newer one", Mutation::kNoVersionOnStatus, {"mpi_1"}},
      {"stores a status in whatever has the name",
       Mutation::kNoUidNorVersionOnStatus,
       {"made_again"}},
      {"takes what exists for its own", Mutation::kExistsIsSuccess, {"name_conflict"}},
      {"trusts its cache after a refused status", Mutation::kJobNotReadAgain, {"deleted"}},
      {"does not look for pods that a newer status knows",
       Mutation::kPodsNotListedAgain,
       {"suspended_in_the_queue", "fails_once"}},
      {"writes without the lease", Mutation::kActsWithoutLease, {"mpi_1"}},
      {"acts before its pods are listed", Mutation::kActsBeforePodsAreListed, {"mpi_1"}},
      {"does not hear of deletions", Mutation::kDeletionsUnheard, {"clean_All"}},
      {"keeps what a new list does not show", Mutation::kRelistKeepsVanished, {"deleted"}},
      {"gives no time to save", Mutation::kNoTimeToSave, {"mpi_2"}},
      {"makes children without an owner", Mutation::kNoOwner, {"mpi_1"}},
      {"deletes a job without preconditions",
       Mutation::kNoPreconditionsOnJob,
       {"made_again_before_ttl"}},
      {"takes a refusal for success", Mutation::kRefusalIsSuccess, {"quota"}},
      {"goes on watching where it missed something", Mutation::kExpiryUnheard, {"fails_once"}},
      {"does not come again later", Mutation::kTimersLost, {"backs_off"}},
      {"takes no answer for success", Mutation::kHangIsSuccess, {"mpi_1"}}};
  for (const KubeMutant& mutant : mutants) {
    const auto found = find_out(mutant);
    EXPECT_TRUE(found) << mutant.name << " survived";
    fmt::print("{:<50} {}\n", mutant.name, found.value_or("survived"));
  }
}

}  // namespace coxswain::test
