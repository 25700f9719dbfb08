#pragma once

#include <functional>
#include <optional>

#include "operator/cluster/cluster.h"
#include "operator/job/plan.h"
#include "operator/job/training_job.h"

namespace coxswain {

// One pass over one job: observe, plan, then record the decision or act on the recorded one. The
// same for every cluster.
class Reconciler {
 public:
  using Planner = std::function<job::Plan(const job::TrainingJob&, const job::Observed&)>;

  // `cluster` must outlive this. Tests prove their laws with planners that break them.
  explicit Reconciler(cluster::Cluster& cluster, Planner planner = job::plan)
      : cluster_(cluster), planner_(std::move(planner)) {}

  // When to come back, if nothing is seen before: 0 at once (the status changed), nullopt never.
  // `job` is the job as it was last read. Throws Error when the cluster can't be reached.
  std::optional<job::Seconds> reconcile(const job::TrainingJob& job);

 private:
  cluster::Cluster& cluster_;
  Planner planner_;
};

}  // namespace coxswain
