#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "operator/cluster/cluster.h"
#include "operator/job/plan.h"
#include "operator/job/training_job.h"

namespace coxswain {

// One pass over one job: observe, plan, then record the decision or act on the recorded one. The
// same for every cluster.
class Reconciler {
 public:
  using Planner = std::function<job::Plan(const job::TrainingJob&, const job::Observed&)>;

  // How long a changed status may wait to be stored.
  using Patience = job::Seconds (*)(const job::Status& before, const job::Status& after);
  static job::Seconds none(const job::Status&, const job::Status&) { return job::Seconds(0); }

  // `cluster` must outlive this. job::patience is for clusters where a write costs. Tests prove
  // their laws with planners that break them.
  explicit Reconciler(cluster::Cluster& cluster, Patience patience = none,
                      Planner planner = job::plan)
      : cluster_(cluster), patience_(patience), planner_(std::move(planner)) {}

  // When to come back, if nothing is seen before: 0 at once (the status changed), nullopt never.
  // `job` is the job as it was last read. Throws Error when the cluster can't be reached. Several
  // jobs may be reconciled at once, each by one thread.
  std::optional<job::Seconds> reconcile(const job::TrainingJob& job);

  // The job with this uid is gone.
  void forget(const std::string& uid);

 private:
  // How long the observations of this pass may still wait; 0: store them now.
  job::Seconds may_wait(const job::TrainingJob& job, const job::Plan& plan, job::Time now);

  cluster::Cluster& cluster_;
  Patience patience_;
  Planner planner_;
  std::mutex mutex_;
  std::map<std::string, job::Time> unsaid_since_;  // by uid; guarded by mutex_
};

}  // namespace coxswain
