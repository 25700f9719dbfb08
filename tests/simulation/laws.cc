#include "tests/simulation/laws.h"

#include <fmt/format.h>

#include <set>

#include "operator/job/gang_view.h"
#include "operator/job/roles.h"
#include "operator/job/status.h"

namespace coxswain::test {

using job::Phase;
using job::Role;
using job::Seconds;
using job::Status;

namespace {

int total(const job::Restarts& restarts) {
  return restarts.failure + restarts.preemption + restarts.node + restarts.startup +
         restarts.resize;
}

// Nobody has seen the first one on a node.
bool may_be_made_again(const Status& status, const job::WorkerId& id) {
  const job::Replacement* replacement = job::replacement_of(status, id.role, id.index);
  if (replacement) return replacement->awaited;
  return job::is_true(status, job::condition::kQueued) && status.replacements.empty();
}

std::string restarting_reason(const Status& status) {
  const job::Condition* found = job::find_condition(status, job::condition::kRestarting);
  return found && found->status ? found->reason : "";
}

}  // namespace

void Laws::demand(bool law, const std::string& text) {
  if (!law && !breach_) breach_ = text;
}

void Laws::check_monotone(const Status& before, const Status& next) {
  demand(next.attempt >= before.attempt, "the attempt fell");
  demand(next.observed_generation >= before.observed_generation, "observedGeneration fell");
  const auto& a = before.restarts;
  const auto& b = next.restarts;
  demand(b.failure >= a.failure && b.preemption >= a.preemption && b.node >= a.node &&
             b.startup >= a.startup && b.resize >= a.resize,
         "a count of restarts fell");
}

// How many pods are made anew within the attempt.
int Laws::check_replacements(const Status& before, const Status& next) {
  if (next.attempt != before.attempt) {
    demand(next.replacements.empty(), "a new gang has pods that were made anew");
    return 0;
  }
  int replaced = 0;
  for (const job::Replacement& now : next.replacements) {
    const int more = now.incarnation - job::incarnation_of(before, now.role, now.index);
    demand(more == 0 || more == 1, "an incarnation fell, or was left out");
    replaced += more;
  }
  demand(next.replacements.size() >= before.replacements.size(), "a replacement was forgotten");
  return replaced;
}

// Every attempt and every replacement has one reason, which is counted once, where it belongs.
void Laws::check_attempt(const Status& before, const Status& next) {
  const int attempts = next.attempt - before.attempt;
  const int counted = total(next.restarts) - total(before.restarts);
  demand(attempts <= 1, "more than one attempt in one write");
  demand(counted <= 1, "more than one restart counted in one write");
  const bool first_or_resumed = before.workers == 0 && next.workers > 0;
  const bool held_now = restarting_reason(next) == "Peer";
  const bool held_before = restarting_reason(before) == "Peer";
  const bool lost = restarting_reason(next) == "StatusLost";
  const int replaced = check_replacements(before, next);
  demand(replaced <= 1, "more than one replacement in one write");
  if (replaced == 1) demand(counted == 1, "a replacement that spends nothing");
  if (attempts == 1)
    demand(counted == 1 || first_or_resumed || held_now || lost,
           "an attempt that nothing explains");
  if (counted == 1)
    demand(attempts == 1 || replaced == 1 || held_before, "a restart was counted twice");
  demand(!world_.knows_losses || total(next.restarts) - next.restarts.resize <=
                                     static_cast<int>(world_.lost.size()),
         "more restarts were counted than pods were lost");
  if (before.workers > 0 && next.workers > 0 && next.workers != before.workers)
    demand(attempts == 1, "the size changed within an attempt");
  check_uncounted(before, next);
  if (next.restarts.startup > before.restarts.startup)
    demand(world_.peers_missing.contains(before.attempt) ||
               world_.peers_missing.contains(before.attempt - 1),
           "a startup restart without a peer that was missed");
  demand(next.restarts.failure <= world_.job.spec.run_policy.backoff_limit,
         "more restarts after failures than backoffLimit");
}

// A restart that spends nothing is the cluster's doing, not the job's.
void Laws::check_uncounted(const Status& before, const Status& next) {
  const bool preempted = next.restarts.preemption > before.restarts.preemption;
  const bool node_lost = next.restarts.node > before.restarts.node;
  if (!preempted && !node_lost) return;
  const bool held = restarting_reason(before) == "Peer";
  const int attempt = held ? before.attempt - 1 : before.attempt;
  const auto& policy = world_.job.spec.run_policy;
  const auto told = world_.told_to_leave.find(attempt);
  const bool may_be_stuck =
      held && node_lost && told != world_.told_to_leave.end() &&
      world_.now >= told->second + policy.termination_grace + policy.stuck_termination;
  demand(world_.disturbed.contains(attempt) || may_be_stuck,
         "a restart that spends nothing, though the cluster did nothing");
}

void Laws::check_transitions(const Status& before, const Status& next) {
  for (const job::Condition& condition : next.conditions) {
    const job::Condition* old = job::find_condition(before, condition.type);
    const bool moved = old && old->last_transition_time != condition.last_transition_time;
    demand(!moved || old->status != condition.status,
           condition.type + ": lastTransitionTime moved without a transition");
  }
}

void Laws::check_success(const Status& next) {
  if (next.phase != Phase::kSucceeded || world_.job.status.phase == Phase::kSucceeded) return;
  const bool all = job::success_policy(world_.job.spec) == job::SuccessPolicy::kAllWorkers;
  const int needed = all ? world_.job.status.workers : 1;
  demand(needed > 0, "succeeded without a gang");
  for (int index = 0; index < needed; ++index)
    demand(world_.succeeded.contains({world_.job.status.attempt, index}),
           fmt::format("succeeded, though worker {} did not", index));
}

void Laws::before_record(const Status& next) {
  const Status& before = world_.job.status;
  if (job::is_terminal(before)) {
    demand(next.phase == before.phase && next.conditions == before.conditions &&
               next.attempt == before.attempt && next.restarts == before.restarts,
           "an end was taken back");
    return;
  }
  check_monotone(before, next);
  check_attempt(before, next);
  check_transitions(before, next);
  check_success(next);
}

void Laws::before_create(std::span<const job::Action> actions, const std::vector<job::Worker>& view,
                         const job::Status& status) {
  demand(!job::is_terminal(status), "a worker was made after the end");
  demand(status.workers > 0, "a worker was made while no gang is wanted");
  demand(!status.next_retry_time || world_.now >= *status.next_retry_time,
         "a worker was made within the back-off");
  std::set<std::pair<Role, int>> gang;
  for (const job::Worker& worker : view)
    if (job::is_current(status, worker.id)) gang.emplace(worker.id.role, worker.id.index);
  for (const int rank : job::parse_ranks(status.succeeded_ranks)) gang.emplace(Role::kWorker, rank);
  for (const job::Action& action : actions) {
    const job::WorkerId id = std::get<job::CreateWorker>(action).id;
    demand(job::is_current(status, id), "a worker was made that isn't recorded");
    demand(!world_.made.contains(id) || may_be_made_again(status, id),
           "a pod was made twice: " + to_text(id));
    demand(gang.emplace(id.role, id.index).second, "a second worker was made for one rank");
  }
  job::TrainingJob wanted = world_.job;
  wanted.status = status;
  const std::size_t all = job::gang(wanted).size();
  demand(gang.size() == all, fmt::format("{} of a gang of {} were made", gang.size(), all));
  for (const auto& [name, pod] : world_.pods)
    demand(pod.late || !is_alive(pod) || pod.seen.id.attempt == status.attempt,
           "two attempts are alive: " + name);
}

void Laws::before_delete(const job::DeleteWorker& action) {
  const Status& status = world_.job.status;
  const auto found =
      world_.pods.find(job::worker_name(world_.job, action.id.role, action.id.index));
  if (found == world_.pods.end() || found->second.seen.uid != action.uid) return;
  const job::Worker& worker = found->second.seen;
  const int size = job::traits_of(worker.id.role).size(world_.job);
  const bool wanted = !job::is_terminal(status) && status.workers > 0 &&
                      job::is_current(status, worker.id) && worker.id.index < size;
  demand(!wanted || is_alive(found->second),
         "a failed worker was deleted before its failure was in the status");
  demand(!wanted, "a wanted worker was deleted");
  const auto& policy = world_.job.spec.run_policy;
  if (action.force)
    demand(worker.deletion_time && world_.now >= *worker.deletion_time + policy.stuck_termination,
           "a worker was taken away by force before it was stuck");
  else
    demand(action.grace == policy.termination_grace, "a worker got no time to save");
}

}  // namespace coxswain::test
