#pragma once

#include <functional>
#include <string>
#include <vector>

#include "operator/job/plan.h"
#include "tests/support/job_builders.h"

namespace coxswain::test {

// One situation a row: tests/golden/plans/<name>.txt shows what is planned in it. The job's line,
// the observed table, ----, the plan, and what changes in the status.
struct Situation {
  std::string name;
  JobBuilder job;
  std::function<void(ObservedBuilder&)> see;
};

void expect_golden_plans(const std::vector<Situation>& situations);

}  // namespace coxswain::test
