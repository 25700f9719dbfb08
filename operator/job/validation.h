#pragma once

#include <vector>

#include "operator/job/observed.h"
#include "operator/job/training_job.h"

namespace coxswain::job {

// Every reason why this job can't start as it is written, job.problems included; empty: it can.
// Needs no cluster. `coxswain validate` prints them all; the condition Invalid carries the first.
std::vector<Problem> validate(const TrainingJob& job, const Installation& installation);

}  // namespace coxswain::job
