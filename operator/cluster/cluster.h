#pragma once

#include <span>
#include <vector>

#include "operator/job/observed.h"
#include "operator/job/plan.h"
#include "operator/job/training_job.h"

namespace coxswain::cluster {

// Where jobs run: pods, local processes, or a simulation. It executes and reports; it never
// decides.
//
// Each call may throw Error when the cluster can't be reached; the pass is then given up and made
// again later. Every call may have had its effect although it threw.
class Cluster {
 public:
  virtual ~Cluster() = default;

  // What is there now for this job, by its uid: at least as new as what this object itself did, and
  // as the status of `job`, whoever wrote it (else a worker not yet seen would be taken for lost).
  virtual job::Observed observe(const job::TrainingJob& job) = 0;

  // Stores the status, unless the job changed since it was read (false), then emits the events.
  // After false or an Error the job must be read at its source, not from a cache, before it is
  // planned again: what is stored may be newer, and acting on the older attempt does harm.
  virtual bool record(const job::TrainingJob& job, const job::Status& status,
                      const std::vector<job::Event>& events) = 0;

  // Carries out actions of one kind, which don't depend on each other, at once or in turn. A worker
  // that exists already in this attempt, or is gone already, is success. What the cluster refuses
  // for good (quota, a foreign name) is no exception: the next observe() tells it as `rejection`.
  virtual void apply(const job::TrainingJob& job, std::span<const job::Action> actions) = 0;
};

}  // namespace coxswain::cluster
