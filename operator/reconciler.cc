#include "operator/reconciler.h"

#include <span>

namespace coxswain {

std::optional<job::Seconds> Reconciler::reconcile(const job::TrainingJob& job) {
  const job::Plan plan = planner_(job, cluster_.observe(job));
  if (plan.decides) {
    // Stored or refused: either way the next pass starts from what is stored.
    cluster_.record(job, plan.status, plan.events);
    return job::Seconds(0);
  }
  const std::span<const job::Action> actions(plan.actions);
  for (std::size_t first = 0; first < actions.size();) {
    std::size_t last = first + 1;
    while (last < actions.size() && actions[last].index() == actions[first].index()) ++last;
    cluster_.apply(job, actions.subspan(first, last - first));
    first = last;
  }
  if (plan.status != job.status) cluster_.record(job, plan.status, plan.events);
  return plan.requeue_after;
}

}  // namespace coxswain
