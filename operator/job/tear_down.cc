#include "operator/job/tear_down.h"

#include <algorithm>

#include "operator/job/gang_view.h"

namespace coxswain::job {

Plan tear_down(const TrainingJob& job, const Observed& observed,
               const std::vector<const Worker*>& workers) {
  Plan plan;
  const Seconds grace = job.spec.run_policy.termination_grace;
  for (const Worker* worker : workers) {
    const auto stuck = stuck_time(job, *worker);
    if (!stuck) {
      plan.actions.push_back(DeleteWorker{worker->id, worker->uid, grace, false});
    } else if (observed.now >= *stuck) {
      plan.actions.push_back(DeleteWorker{worker->id, worker->uid, Seconds(0), true});
    } else {
      const Seconds wait = *stuck - observed.now;
      plan.requeue_after = std::min(plan.requeue_after.value_or(wait), wait);
    }
  }
  return plan;
}

}  // namespace coxswain::job
