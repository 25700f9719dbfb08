#include "operator/job/gang_view.h"

#include <algorithm>

#include "operator/job/roles.h"

namespace coxswain::job {

namespace {

// A status that was lost, or is older than its pods, lacks what was decided since: never more than
// this. Beyond it stands what somebody wrote upon a pod; no number is taken over from there.
constexpr int kMostUnknownAttempts = 10000;

}  // namespace

const Worker* GangView::find(const WorkerId& id) const {
  const auto found = present.find({id.role, id.index});
  return found == present.end() ? nullptr : found->second;
}

GangView view_gang(const TrainingJob& job, const Observed& observed) {
  GangView view;
  view.wanted = gang(job);
  const auto is_wanted = [&](const WorkerId& id) {
    return std::binary_search(view.wanted.begin(), view.wanted.end(), id);
  };
  for (const Worker& worker : observed.workers) {
    if (worker.id.attempt - job.status.attempt <= kMostUnknownAttempts)
      view.newest_attempt = std::max(view.newest_attempt, worker.id.attempt);
    if (worker.id.attempt == job.status.attempt &&
        worker.id.incarnation > incarnation_of(job.status, worker.id.role, worker.id.index))
      view.newer_incarnation = true;
    const bool fits = is_wanted(worker.id) &&
                      view.present.try_emplace({worker.id.role, worker.id.index}, &worker).second;
    if (!fits) view.leftover.push_back(&worker);
  }
  if (observed.predecessor && view.present.size() < view.wanted.size())
    view.predecessor = &*observed.predecessor;
  return view;
}

bool has_ended(const Worker& worker) {
  return worker.phase == WorkerPhase::kSucceeded || worker.phase == WorkerPhase::kFailed;
}

std::optional<Time> told_time(const TrainingJob& job, const Worker& worker) {
  if (!worker.deletion_time) return std::nullopt;
  return *worker.deletion_time - job.spec.run_policy.termination_grace;
}

std::optional<Time> stuck_time(const TrainingJob& job, const Worker& worker) {
  if (!worker.deletion_time) return std::nullopt;
  return worker.grace_end.value_or(*worker.deletion_time) + job.spec.run_policy.stuck_termination;
}

Time stuck_time(const TrainingJob& job, const Predecessor& predecessor) {
  const RunPolicy& policy = job.spec.run_policy;
  return predecessor.since + policy.termination_grace + policy.stuck_termination;
}

}  // namespace coxswain::job
