#pragma once

#include <vector>

#include "operator/job/plan.h"

namespace coxswain::job {

// Deletes these workers: with grace, and by force those that are stuck. Comes back when the next
// one would be. Leaves the plan's status empty.
Plan tear_down(const TrainingJob& job, const Observed& observed,
               const std::vector<const Worker*>& workers);

// Of a job that has ended: what cleanPodPolicy says, then the job itself.
Plan clean_up(const TrainingJob& job, const Observed& observed);

// At this time, if at no earlier one.
void come_back_at(Plan& plan, std::optional<Time> when, Time now);

}  // namespace coxswain::job
