#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/simulation/kube_simulation.h"

namespace coxswain::test {

namespace {

struct KubeMutant {
  const char* name;
  Mutation mutation;
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
  return plans;
}

// The first plan that finds the mutant out, of those in which nothing is wrong without it.
std::optional<std::string> find_out(const KubeMutant& mutant) {
  for (const Workload& workload : workloads()) {
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
  const auto mutants = std::to_array<KubeMutant>(
      {{"deletes pods without their uid", Mutation::kNoUidOnDelete},
       {"stores a status over a newer one", Mutation::kNoVersionOnStatus},
       {"stores a status in whatever has the name", Mutation::kNoUidNorVersionOnStatus},
       {"takes what exists for its own", Mutation::kExistsIsSuccess},
       {"trusts its cache after a refused status", Mutation::kJobNotReadAgain},
       {"does not look for pods that a newer status knows", Mutation::kPodsNotListedAgain},
       {"writes without the lease", Mutation::kActsWithoutLease},
       {"acts before its pods are listed", Mutation::kActsBeforePodsAreListed},
       {"does not hear of deletions", Mutation::kDeletionsUnheard},
       {"keeps what a new list does not show", Mutation::kRelistKeepsVanished},
       {"gives no time to save", Mutation::kNoTimeToSave},
       {"makes children without an owner", Mutation::kNoOwner},
       {"deletes a job without preconditions", Mutation::kNoPreconditionsOnJob},
       {"takes a refusal for success", Mutation::kRefusalIsSuccess}});
  for (const KubeMutant& mutant : mutants) {
    const auto found = find_out(mutant);
    EXPECT_TRUE(found) << mutant.name << " survived";
    fmt::print("{:<50} {}\n", mutant.name, found.value_or("survived"));
  }
}

}  // namespace coxswain::test
