#include "tests/simulation/mutants.h"

#include <algorithm>

#include "operator/job/gang_view.h"
#include "operator/job/plan.h"
#include "operator/job/roles.h"
#include "operator/job/status.h"

namespace coxswain::test {

namespace {

using job::Action;
using job::CreateWorker;
using job::DeleteWorker;
using job::Observed;
using job::Phase;
using job::Plan;
using job::Seconds;
using job::TrainingJob;

template <class Keep>
Plan only_actions(Plan plan, Keep keep) {
  std::erase_if(plan.actions, [&](const Action& action) { return !keep(action); });
  return plan;
}

Plan doesnt_wait_for_the_old_gang(const TrainingJob& job, Observed observed) {
  std::erase_if(observed.workers, [&](const job::Worker& worker) {
    return worker.id.attempt < job.status.attempt && worker.deletion_time;
  });
  return job::plan(job, observed);
}

Plan grants_one_restart_too_many(TrainingJob job, const Observed& observed) {
  ++job.spec.run_policy.backoff_limit;
  return job::plan(job, observed);
}

Plan records_and_acts_in_one_pass(const TrainingJob& job, const Observed& observed) {
  Plan plan = job::plan(job, observed);
  if (!plan.decides) return plan;
  TrainingJob next = job;
  next.status = plan.status;
  Plan acting = job::plan(next, observed);
  acting.status = plan.status;
  acting.decides = false;
  return acting;
}

Plan forgets_that_the_job_ended(TrainingJob job, const Observed& observed) {
  if (job::is_terminal(job.status)) job.status.phase = Phase::kRunning;
  return job::plan(job, observed);
}

Plan counts_a_failure_twice(const TrainingJob& job, const Observed& observed) {
  Plan plan = job::plan(job, observed);
  if (plan.status.restarts.failure > job.status.restarts.failure) ++plan.status.restarts.failure;
  return plan;
}

Plan counts_a_failure_again_each_pass(const TrainingJob& job, const Observed& observed) {
  Plan plan = job::plan(job, observed);
  if (!plan.decides && plan.status.phase == Phase::kRestarting &&
      plan.status.restarts.failure > 0 && !plan.actions.empty())
    ++plan.status.restarts.failure;
  return plan;
}

Plan never_backs_off(const TrainingJob& job, const Observed& observed) {
  TrainingJob eager = job;
  eager.status.next_retry_time.reset();
  Plan plan = job::plan(eager, observed);
  if (!plan.decides) plan.status.next_retry_time = job.status.next_retry_time;
  return plan;
}

Plan reuses_the_attempt(const TrainingJob& job, const Observed& observed) {
  Plan plan = job::plan(job, observed);
  if (job.status.workers > 0) plan.status.attempt = job.status.attempt;
  return plan;
}

Plan takes_any_workers_success(const TrainingJob& job, Observed observed) {
  const auto succeeded = std::find_if(
      observed.workers.begin(), observed.workers.end(),
      [](const job::Worker& worker) { return worker.phase == job::WorkerPhase::kSucceeded; });
  if (succeeded != observed.workers.end())
    for (job::Worker& worker : observed.workers) worker.phase = job::WorkerPhase::kSucceeded;
  return job::plan(job, observed);
}

Plan counts_an_old_attempts_success(const TrainingJob& job, Observed observed) {
  for (job::Worker& worker : observed.workers)
    if (worker.phase == job::WorkerPhase::kSucceeded) worker.id.attempt = job.status.attempt;
  return job::plan(job, observed);
}

Plan leaves_running_workers_of_the_old_gang(const TrainingJob& job, const Observed& observed) {
  return only_actions(job::plan(job, observed), [&](const Action& action) {
    const auto* remove = std::get_if<DeleteWorker>(&action);
    if (!remove) return true;
    return std::any_of(observed.workers.begin(), observed.workers.end(), [&](const auto& worker) {
      return worker.uid == remove->uid && job::has_ended(worker);
    });
  });
}

Plan makes_all_but_one_worker(const TrainingJob& job, const Observed& observed) {
  Plan plan = job::plan(job, observed);
  if (!plan.actions.empty() && std::holds_alternative<CreateWorker>(plan.actions.back()))
    plan.actions.pop_back();
  return plan;
}

Plan ignores_suspend(TrainingJob job, const Observed& observed) {
  job.spec.run_policy.suspend = false;
  return job::plan(job, observed);
}

Plan never_uses_force(const TrainingJob& job, const Observed& observed) {
  return only_actions(job::plan(job, observed), [](const Action& action) {
    const auto* remove = std::get_if<DeleteWorker>(&action);
    return !remove || !remove->force;
  });
}

Plan uses_force_at_once(const TrainingJob& job, const Observed& observed) {
  Plan plan = job::plan(job, observed);
  for (Action& action : plan.actions)
    if (auto* remove = std::get_if<DeleteWorker>(&action)) remove->force = true;
  return plan;
}

Plan leaves_no_time_to_save(const TrainingJob& job, const Observed& observed) {
  Plan plan = job::plan(job, observed);
  for (Action& action : plan.actions)
    if (auto* remove = std::get_if<DeleteWorker>(&action)) remove->grace = Seconds(0);
  return plan;
}

Plan moves_transition_times(const TrainingJob& job, const Observed& observed) {
  Plan plan = job::plan(job, observed);
  if (plan.status != job.status)
    for (job::Condition& condition : plan.status.conditions)
      condition.last_transition_time = observed.now;
  return plan;
}

Plan forgets_restarts_at_a_resize(const TrainingJob& job, const Observed& observed) {
  Plan plan = job::plan(job, observed);
  if (plan.status.restarts.resize > job.status.restarts.resize)
    plan.status.restarts = {.failure = 0,
                            .preemption = 0,
                            .node = 0,
                            .startup = 0,
                            .resize = plan.status.restarts.resize};
  return plan;
}

Plan blames_the_cluster(const TrainingJob& job, const Observed& observed) {
  Plan plan = job::plan(job, observed);
  if (plan.status.restarts.failure > job.status.restarts.failure) {
    --plan.status.restarts.failure;
    ++plan.status.restarts.preemption;
  }
  return plan;
}

Plan writes_though_nothing_changed(const TrainingJob& job, const Observed& observed) {
  Plan plan = job::plan(job, observed);
  plan.status.backoff_step = job.status.backoff_step + 1;
  return plan;
}

Plan counts_no_replacement(const TrainingJob& job, const Observed& observed) {
  Plan plan = job::plan(job, observed);
  if (plan.status.attempt == job.status.attempt && !plan.status.replacements.empty())
    plan.status.restarts = job.status.restarts;
  return plan;
}

Plan keeps_the_incarnation(const TrainingJob& job, const Observed& observed) {
  Plan plan = job::plan(job, observed);
  for (job::Replacement& each : plan.status.replacements)
    each.incarnation = job::incarnation_of(job.status, each.role, each.index);
  return plan;
}

Plan takes_a_leftover_for_the_new_pod(const TrainingJob& job, Observed observed) {
  for (job::Worker& worker : observed.workers)
    if (worker.id.attempt == job.status.attempt)
      worker.id.incarnation = job::incarnation_of(job.status, worker.id.role, worker.id.index);
  return job::plan(job, observed);
}

Plan makes_a_pod_of_an_old_incarnation(const TrainingJob& job, const Observed& observed) {
  Plan plan = job::plan(job, observed);
  for (Action& action : plan.actions)
    if (auto* create = std::get_if<CreateWorker>(&action)) create->id.incarnation = 0;
  return plan;
}

Plan replaces_without_a_record(const TrainingJob& job, const Observed& observed) {
  Plan plan = job::plan(job, observed);
  if (plan.status.replacements.size() <= job.status.replacements.size()) return plan;
  TrainingJob recorded = job;
  recorded.status = plan.status;
  plan.actions = job::plan(recorded, observed).actions;
  plan.decides = false;
  plan.status = job.status;
  return plan;
}

Plan remakes_what_it_sees(const TrainingJob& job, Observed observed) {
  if (!observed.workers.empty() && observed.workers.front().phase == job::WorkerPhase::kPending)
    observed.workers.erase(observed.workers.begin());
  return job::plan(job, observed);
}

}  // namespace

std::vector<Mutant> mutants() {
  return {
      {"doesn't wait for the old gang", doesnt_wait_for_the_old_gang, {}},
      {"grants one restart too many", grants_one_restart_too_many, {}},
      {"records and acts in one pass", records_and_acts_in_one_pass, {}},
      {"forgets that the job ended", forgets_that_the_job_ended, {}},
      {"counts a failure twice", counts_a_failure_twice, {}},
      {"counts a failure again each pass", counts_a_failure_again_each_pass, {}},
      {"never backs off", never_backs_off, {}},
      {"reuses the attempt", reuses_the_attempt, {}},
      {"takes any worker's success", takes_any_workers_success, {}},
      {"counts an old attempt's success", counts_an_old_attempts_success, {}},
      {"leaves running workers of the old gang", leaves_running_workers_of_the_old_gang, {}},
      {"makes all but one worker", makes_all_but_one_worker, {}},
      {"ignores suspend", ignores_suspend, {}},
      {"never uses force", never_uses_force, {}},
      {"uses force at once", uses_force_at_once, {}},
      {"leaves no time to save", leaves_no_time_to_save, {}},
      {"moves transition times", moves_transition_times, {}},
      {"forgets restarts at a resize", forgets_restarts_at_a_resize, {}},
      {"blames the cluster", blames_the_cluster, {}},
      {"writes though nothing changed", writes_though_nothing_changed, {}},
      {"counts no replacement", counts_no_replacement, {}},
      {"keeps the incarnation", keeps_the_incarnation, {}},
      {"takes a leftover for the new pod", takes_a_leftover_for_the_new_pod, {}},
      {"makes a pod of an old incarnation", makes_a_pod_of_an_old_incarnation, {}},
      {"replaces without a record", replaces_without_a_record, {}},
      {"remakes what it sees", remakes_what_it_sees, {}},
      {"stores over a newer status", job::plan, {.client_checks_version = false, .trace = false}},
  };
}

}  // namespace coxswain::test
