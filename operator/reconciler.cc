#include "operator/reconciler.h"

#include <algorithm>
#include <span>

#include "operator/job/status.h"

namespace coxswain {

namespace {

// What keeps failing is told before it is tried again: the next try may fail too, and would take
// the pass with it.
bool has_news_of_trouble(const job::Status& before, const job::Status& after) {
  const job::Condition* told = job::find_condition(before, job::condition::kResourcesRejected);
  const job::Condition* now = job::find_condition(after, job::condition::kResourcesRejected);
  return now && now->status && (!told || *told != *now);
}

}  // namespace

std::optional<job::Seconds> Reconciler::reconcile(const job::TrainingJob& job) {
  const job::Observed observed = cluster_.observe(job);
  const job::Plan plan = planner_(job, observed);
  if (plan.decides) {
    // Stored or refused: either way the next pass starts from what is stored.
    cluster_.record(job, plan.status, plan.events);
    forget(job.metadata.uid);
    return job::Seconds(0);
  }
  if (has_news_of_trouble(job.status, plan.status)) {
    cluster_.record(job, plan.status, plan.events);
    forget(job.metadata.uid);
    return job::Seconds(0);
  }
  const std::span<const job::Action> actions(plan.actions);
  for (std::size_t first = 0; first < actions.size();) {
    std::size_t last = first + 1;
    while (last < actions.size() && actions[last].index() == actions[first].index()) ++last;
    cluster_.apply(job, actions.subspan(first, last - first));
    first = last;
  }
  const job::Seconds wait = may_wait(job, plan, observed.now);
  if (wait > job::Seconds(0)) return std::min(wait, plan.requeue_after.value_or(wait));
  if (plan.status != job.status && !cluster_.record(job, plan.status, plan.events))
    return job::Seconds(0);
  return plan.requeue_after;
}

job::Seconds Reconciler::may_wait(const job::TrainingJob& job, const job::Plan& plan,
                                  job::Time now) {
  const job::Seconds patience =
      plan.status == job.status ? job::Seconds(0) : patience_(job.status, plan.status);
  const std::lock_guard lock(mutex_);
  job::Seconds left(0);
  if (patience > job::Seconds(0)) {
    job::Time& since = unsaid_since_.try_emplace(job.metadata.uid, now).first->second;
    since = std::min(since, now);  // or a clock that is set back would hold it for as long
    left = std::max(since + patience - now, job::Seconds(0));
  }
  if (left == job::Seconds(0)) unsaid_since_.erase(job.metadata.uid);
  return left;
}

void Reconciler::forget(const std::string& uid) {
  const std::lock_guard lock(mutex_);
  unsaid_since_.erase(uid);
}

}  // namespace coxswain
