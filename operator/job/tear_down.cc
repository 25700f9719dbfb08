#include "operator/job/tear_down.h"

#include <algorithm>

#include "operator/job/gang_view.h"
#include "operator/job/roles.h"
#include "operator/job/scheduling.h"

namespace coxswain::job {

namespace {

// When sidecars that outlive their trainer count as running on, and no longer as about to end: a
// pod needs a moment for its end, native sidecars their grace.
std::optional<Time> sidecars_overdue(const TrainingJob& job) {
  if (!job.status.completion_time) return std::nullopt;
  return *job.status.completion_time + job.spec.run_policy.termination_grace;
}

// A server leaves after the workers that leave with it: they may need it to save.
bool waits_for_workers(const Worker& server, const std::vector<const Worker*>& leaving) {
  return server.id.role == Role::kServer && std::ranges::any_of(leaving, [&](const Worker* other) {
           return other->id.role == Role::kWorker && other->id.attempt == server.id.attempt &&
                  !has_ended(*other);
         });
}

}  // namespace

void come_back_at(Plan& plan, std::optional<Time> when, Time now) {
  if (!when) return;
  const Seconds wait = std::max(Seconds(0), *when - now);
  plan.requeue_after = std::min(plan.requeue_after.value_or(wait), wait);
}

Plan tear_down(const TrainingJob& job, const Observed& observed,
               const std::vector<const Worker*>& workers) {
  Plan plan;
  const Seconds grace = job.spec.run_policy.termination_grace;
  for (const Worker* worker : workers) {
    const auto stuck = stuck_time(job, *worker);
    if (!stuck && waits_for_workers(*worker, workers)) continue;
    if (!stuck) {
      plan.actions.push_back(DeleteWorker{worker->id, worker->uid, grace, false});
    } else if (observed.now >= *stuck) {
      plan.actions.push_back(DeleteWorker{worker->id, worker->uid, Seconds(0), true});
    } else {
      come_back_at(plan, stuck, observed.now);
    }
  }
  return plan;
}

Plan clean_up(const TrainingJob& job, const Observed& observed) {
  const auto& policy = job.spec.run_policy;
  const auto overdue = sidecars_overdue(job);
  std::vector<const Worker*> unwanted;
  bool any_runs = false;
  bool may_end = false;
  for (const Worker& worker : observed.workers) {
    const bool old = !is_current(job.status, worker.id);
    const bool serving = serves(job.spec, worker.id.role, worker.id.index);
    const bool lingers = worker.lingers && overdue && observed.now >= *overdue;
    const bool running = !has_ended(worker) || lingers;
    const bool by_policy = policy.clean_pods == CleanPodPolicy::kAll ||
                           (policy.clean_pods == CleanPodPolicy::kRunning && running);
    if (by_policy || (running && (serving || old))) unwanted.push_back(&worker);
    may_end = may_end || worker.lingers;
    any_runs = any_runs || !has_ended(worker) || worker.lingers;
  }
  Plan plan = tear_down(job, observed, unwanted);
  if (may_end && overdue && observed.now < *overdue) come_back_at(plan, overdue, observed.now);
  plan.status = job.status;
  for (auto& [role, counts] : plan.status.replicas) {
    counts.ready = counts.active = 0;
    for (const Worker& worker : observed.workers)
      if (worker.id.role == role && !has_ended(worker)) ++counts.active;
  }
  const bool expires = policy.ttl_after_finished && job.status.completion_time;
  const auto end = expires ? std::optional(*job.status.completion_time + *policy.ttl_after_finished)
                           : std::nullopt;
  if (end && observed.now >= *end) {
    plan.actions = {DeleteJob{}};
    return plan;
  }
  if (!any_runs) drop_pod_group(plan);
  come_back_at(plan, end, observed.now);
  return plan;
}

}  // namespace coxswain::job
