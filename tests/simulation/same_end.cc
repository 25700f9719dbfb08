#include "tests/simulation/same_end.h"

#include <gtest/gtest.h>

namespace coxswain::test {

Json expect_same_end(const Workload& life, const std::function<Plans(const Outcome&)>& plans_of) {
  const Outcome undisturbed = simulate(life, {});
  EXPECT_FALSE(undisturbed.breach) << *undisturbed.breach;
  for (const FaultPlan& plan : plans_of ? plans_of(undisturbed) : Plans{}) {
    const Outcome outcome = simulate(life, plan);
    auto wrong = outcome.breach;
    if (!wrong) wrong = difference(undisturbed, outcome, plan);
    EXPECT_FALSE(wrong) << to_text(plan) << ": " << *wrong;
  }
  return undisturbed.end.value("/jobs/mnist"_json_pointer, Json::object());
}

}  // namespace coxswain::test
