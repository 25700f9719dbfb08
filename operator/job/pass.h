#pragma once

#include "operator/job/gang_view.h"
#include "operator/job/observed.h"
#include "operator/job/status.h"
#include "operator/job/training_job.h"

namespace coxswain::job {

// Everything one pass of the planner knows; `status` is the stored one with the observations
// entered.
struct Pass {
  const TrainingJob& job;
  const Observed& observed;
  const GangView& view;
  Status status;

  Stamp stamp() const { return {observed.now, job.metadata.generation}; }
};

}  // namespace coxswain::job
