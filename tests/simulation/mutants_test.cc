#include "tests/simulation/mutants.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/simulation/simulation.h"

namespace coxswain::test {

// The laws bite: each planner that breaks one rule is found out.
TEST(Mutants, each_breaks_a_law) {
  constexpr std::uint64_t kSeeds = 10'000;
  for (const Mutant& mutant : mutants()) {
    Coverage coverage;
    std::optional<std::string> breach;
    std::uint64_t seed = 0;
    while (!breach && seed < kSeeds)
      breach = simulate(++seed, mutant.planner, coverage, mutant.variant);
    EXPECT_TRUE(breach) << mutant.name << " survived " << kSeeds << " seeds";
    fmt::print("{:<40} seed {:>5}: {}\n", mutant.name, seed, breach.value_or("survived"));
  }
}

}  // namespace coxswain::test
