#pragma once

#include <string>

#include "operator/job/plan.h"

namespace coxswain::test {

// One golden situation: the job's line, the observed table, ----, the plan, and what changes in the
// status.
std::string situation_text(const job::TrainingJob& job, const job::Observed& observed,
                           const job::Plan& plan);

}  // namespace coxswain::test
