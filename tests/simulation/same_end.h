#pragma once

#include <functional>
#include <vector>

#include "tests/simulation/life_steps.h"

namespace coxswain::test {

using Plans = std::vector<FaultPlan>;

// The end that the job comes to undisturbed, which it must come to under each of the plans too.
Json expect_same_end(const Workload& life,
                     const std::function<Plans(const Outcome&)>& plans_of = {});

}  // namespace coxswain::test
