#include "tests/simulation/simulation.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/test_flags.h"

namespace coxswain::test {

namespace {

constexpr std::uint64_t kSeeds = 10'000;

}  // namespace

TEST(Simulation, no_law_is_broken_by_any_seed) {
  const std::uint64_t first = flags().seed_given ? flags().seed : 1;
  const std::uint64_t last = flags().seed_given ? flags().seed : kSeeds;
  Coverage coverage;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    const auto breach = simulate(seed, job::plan, coverage, {.trace = flags().seed_given});
    ASSERT_FALSE(breach) << *breach << "; replay: test_simulation --seed " << seed;
  }
  if (flags().seed_given) return;
  fmt::print(
      "{} lives: {} succeeded, {} failed, {} suspended, {} running; restarts: {} failure, {} "
      "preemption, {} node, {} startup, {} resize; {} writes\n",
      coverage.lives, coverage.succeeded, coverage.failed, coverage.suspended, coverage.running,
      coverage.failures, coverage.preemptions, coverage.nodes, coverage.startups, coverage.resizes,
      coverage.writes);
  // The faults are no decoration: every cause and every end was met.
  for (const int met : {coverage.succeeded, coverage.failed, coverage.suspended, coverage.running,
                        coverage.failures, coverage.preemptions, coverage.nodes, coverage.startups,
                        coverage.resizes})
    EXPECT_GE(met, 100);
}

}  // namespace coxswain::test
