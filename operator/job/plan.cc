#include "operator/job/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "operator/job/classify.h"
#include "operator/job/deadlines.h"
#include "operator/job/observation.h"
#include "operator/job/pass.h"
#include "operator/job/restart.h"
#include "operator/job/roles.h"
#include "operator/job/scheduling.h"
#include "operator/job/status.h"
#include "operator/job/tear_down.h"
#include "operator/job/validation.h"
#include "operator/job/worker_spec.h"

namespace coxswain::job {

namespace {

constexpr Seconds kLookAtNamespace{60};
constexpr Seconds kRetryRejected{10};  // quota may be freed without our hearing of it

bool is_ours(const TrainingJob& job) {
  const std::string& manager = job.spec.run_policy.managed_by;
  return !job.metadata.deletion_time && (manager.empty() || manager == kManagedBy);
}

bool succeeded(const Pass& pass) {
  if (pass.status.workers == 0) return false;
  if (success_policy(pass.job.spec) == SuccessPolicy::kAllWorkers)
    return static_cast<int>(parse_ranks(pass.status.succeeded_ranks).size()) == pass.status.workers;
  const Worker* first = pass.view.find({Role::kWorker, 0, pass.status.attempt});
  return first && first->phase == WorkerPhase::kSucceeded;
}

// How a worker that is there no more was lost: by its end, if that was seen.
Loss loss_of_gone(const Pass& pass, const WorkerId& id) {
  std::optional<Loss> loss;
  for (const Worker& worker : pass.observed.gone)
    if (worker.id == id) loss = classify(pass.job, worker, pass.observed.now);
  return loss ? *loss : classify_gone(pass.job, id, pass.observed.now);
}

// A worker that isn't there is a loss once it was there; before that it is still to be made.
bool was_there(const Status& status, const WorkerId& id) {
  const Replacement* replacement = replacement_of(status, id.role, id.index);
  return was_complete(status) && !(replacement && replacement->awaited);
}

// The first cause why the recorded attempt can't go on.
std::optional<Loss> first_loss(const Pass& pass) {
  const std::set<int> done = parse_ranks(pass.status.succeeded_ranks);
  std::optional<Loss> first;
  for (const WorkerId& id : pass.view.wanted) {
    if (id.role == Role::kWorker && done.contains(id.index)) continue;
    const Worker* worker = pass.view.find(id);
    std::optional<Loss> loss;
    if (worker) loss = classify(pass.job, *worker, pass.observed.now);
    if (!worker && was_there(pass.job.status, id)) loss = loss_of_gone(pass, id);
    if (loss && (!first || precedes(*loss, *first))) first = std::move(loss);
  }
  return first;
}

// False when a pod has failed without which the others can't train: then one of them alone is no
// use.
bool others_go_on(const Pass& pass) {
  return std::ranges::none_of(pass.view.present, [&](const auto& there) {
    const auto& [place, worker] = there;
    return worker->phase == WorkerPhase::kFailed &&
           !traits_of(place.first).is_replaced_alone(pass.job.spec);
  });
}

// How many workers a gang that has waited long enough may start with; nullopt: it waits on, or
// lacks none.
std::optional<int> degraded_size(const Pass& pass) {
  const auto start = degraded_start(pass);
  if (!start || pass.observed.now < *start || !pass.view.leftover.empty()) return std::nullopt;
  int scheduled = 0;
  for (const auto& [place, worker] : pass.view.present)
    if (place.first == Role::kWorker && worker->scheduled) ++scheduled;
  if (scheduled >= pass.status.workers ||
      scheduled < pass.job.spec.elastic->min_replicas.value_or(1))
    return std::nullopt;
  return scheduled;
}

// The size asked for, when it is another than this attempt was made for.
std::optional<int> new_size(const Pass& pass) {
  const auto& elastic = pass.job.spec.elastic;
  const int asked = pass.job.spec.worker.replicas;
  const auto known = pass.status.replicas.find(Role::kWorker);
  if (!elastic || known == pass.status.replicas.end() || known->second.desired == asked)
    return std::nullopt;
  if (asked < elastic->min_replicas.value_or(1) ||
      asked > elastic->max_replicas.value_or(kMaxWorkers))
    return std::nullopt;
  return asked;
}

Plan leave_alone(const TrainingJob& job) {
  Plan plan;
  plan.status = job.status;
  return plan;
}

Plan decide(Pass pass, Event event) {
  enter_progress(pass.status, pass.observed, pass.view);
  keep_transition_times(pass.job.status, pass.status);
  Plan plan;
  plan.status = std::move(pass.status);
  plan.decides = true;
  plan.events.push_back(std::move(event));
  return plan;
}

Plan finish(Pass pass) {
  enter_progress(pass.status, pass.observed, pass.view);
  const std::string message = describe_end(pass.status);
  end_job(pass.status, Phase::kSucceeded, {true, "Succeeded", message}, pass.stamp());
  return decide(std::move(pass), {false, "Succeeded", message});
}

Plan fail(Pass pass, const Overdue& why) {
  end_job(pass.status, Phase::kFailed, {true, why.reason, why.message}, pass.stamp());
  return decide(std::move(pass), {true, why.reason, why.message});
}

// Of a job that wants no pods: those that there are leave, then their PodGroup, which would hold a
// place in the queue.
Plan let_go(Pass pass) {
  Plan plan = tear_down(pass.job, pass.observed, pass.view.leftover);
  plan.status = std::move(pass.status);
  if (pass.view.leftover.empty()) drop_pod_group(plan);
  return plan;
}

Plan suspend(Pass pass) {
  if (pass.status.workers == 0 && is_true(pass.status, condition::kSuspended))
    return let_go(std::move(pass));
  release_gang(pass.status, "Suspended", pass.stamp());
  pass.status.avoid_nodes.clear();
  set_condition(pass.status, condition::kSuspended,
                {true, "Suspended", "spec.runPolicy.suspend is true"}, pass.stamp());
  pass.status.phase = phase_of(pass.status);
  return decide(std::move(pass), {false, "Suspended", "the job is suspended"});
}

// Records what a loss means. `held`: the attempt after it is already recorded, and waits for this.
Plan restart_or_fail(Pass pass, const Loss& loss, bool held) {
  pass.status.last_failure = loss.failure;
  if (const auto end = charge(pass.job.spec, loss, pass.status))
    return fail(std::move(pass), {end->reason, end->message});
  const std::string message = describe(loss);
  if (!held) {
    back_off(pass.job.status, pass.status, pass.observed.now);
    new_attempt(pass.job, pass.status, pass.job.spec.worker.replicas, pass.stamp());
  }
  set_condition(pass.status, condition::kRestarting, {true, to_text(loss.cause), message},
                pass.stamp());
  pass.status.phase = phase_of(pass.status);
  return decide(std::move(pass), {true, "Restarting", message});
}

// Records that one pod is made anew, and spends what its loss costs. Acting on it deletes the old
// one, whose name the new one takes.
Plan replace(Pass pass, const Loss& loss) {
  pass.status.last_failure = loss.failure;
  if (const auto end = charge(pass.job.spec, loss, pass.status))
    return fail(std::move(pass), {end->reason, end->message});
  const std::string message = describe(loss);
  back_off(pass.job.status, pass.status, pass.observed.now);
  replace_pod(pass.status, loss.failure);
  set_condition(pass.status, condition::kQueued, {true, "Replacing", message}, pass.stamp());
  pass.status.phase = phase_of(pass.status);
  return decide(std::move(pass), {true, "Replacing", message});
}

Plan resize(Pass pass, int size, bool degraded) {
  ++pass.status.restarts.resize;
  const std::string message = fmt::format("from {} to {} workers", pass.status.workers, size);
  new_attempt(pass.job, pass.status, size, pass.stamp());
  set_condition(pass.status, condition::kRestarting, {true, "Resize", message}, pass.stamp());
  if (degraded)
    set_condition(pass.status, condition::kDegraded, {true, "NotEnoughNodes", message},
                  pass.stamp());
  pass.status.phase = phase_of(pass.status);
  return decide(std::move(pass), {degraded, degraded ? "Degraded" : "Resizing", message});
}

// Pods of an attempt that the status doesn't know: the status was lost, or is older than they are.
// In the second case this write is refused, and nothing happens.
Plan take_over(Pass pass) {
  pass.status.attempt = pass.view.newest_attempt;
  const std::string message =
      fmt::format("pods of attempt {} are there, the status knows {}{}", pass.view.newest_attempt,
                  pass.job.status.attempt,
                  pass.view.newer_incarnation ? ", and pods of it that were made anew" : "");
  new_attempt(pass.job, pass.status, pass.job.spec.worker.replicas, pass.stamp());
  set_condition(pass.status, condition::kRestarting, {true, "StatusLost", message}, pass.stamp());
  pass.status.phase = phase_of(pass.status);
  return decide(std::move(pass), {true, "StatusLost", message});
}

// Whether nothing but the Pod Security level of its namespace, whose label may change, keeps the
// job from starting.
bool waits_for_another_level(const Pass& pass) {
  Installation open = pass.observed.installation;
  open.pod_security = PodSecurity::kPrivileged;
  return validate(pass.job, open).empty();
}

Plan reject(Pass pass, const Problem& problem) {
  const std::string message = to_text(problem);
  const Condition* invalid = find_condition(pass.status, condition::kInvalid);
  const bool known = invalid && invalid->status && invalid->message == message;
  set_condition(pass.status, condition::kInvalid, {true, "Invalid", message}, pass.stamp());
  clear_condition(pass.status, condition::kSuspended, "Resumed", pass.stamp());
  pass.status.phase = phase_of(pass.status);
  if (!known) return decide(std::move(pass), {true, "Invalid", message});
  const bool waits = waits_for_another_level(pass);
  const Time now = pass.observed.now;
  Plan plan = let_go(std::move(pass));
  if (waits) come_back_at(plan, now + kLookAtNamespace, now);
  return plan;
}

bool lacks_keys(const Spec& spec, const Status& status) {
  return needs_keys(spec) && status.keys_secret.empty();
}

void tell_of_rejection(const Pass& pass, Plan& plan) {
  const Condition* refused = find_condition(pass.status, condition::kResourcesRejected);
  if (refused && refused->status && !is_true(pass.job.status, condition::kResourcesRejected))
    plan.events.push_back({true, refused->reason, refused->message});
}

// Pods name the Secret with the job's keys, and it can't be read: one that we did not make is never
// taken for ours. So its name, which is drawn, is stored only once it is made.
Plan make_keys(Pass pass) {
  Plan plan;
  plan.decides = !pass.status.keys_secret.empty();
  if (!plan.decides) {
    plan.actions.push_back(EnsureObject{ObjectKind::kSecret});
    if (pass.observed.rejection) plan.requeue_after = kRetryRejected;
    tell_of_rejection(pass, plan);
  }
  plan.status = std::move(pass.status);
  return plan;
}

// The first gang, or the first after a suspension.
Plan start(Pass pass) {
  const auto problems = validate(pass.job, pass.observed.installation);
  if (!problems.empty()) return reject(std::move(pass), problems.front());
  Status& status = pass.status;
  const GangScheduler gang = pass.job.spec.run_policy.scheduling.gang;
  if (status.pod_group != GangScheduler::kNone && status.pod_group != gang)
    return let_go(std::move(pass));  // another was asked for while it was suspended
  // Made before the gang is recorded, they save it a write. What is refused is told of a gang.
  if (lacks_keys(pass.job.spec, status) && !pass.observed.rejection)
    return make_keys(std::move(pass));
  const bool resumed =
      status.attempt_start_time.has_value() || is_true(status, condition::kSuspended);
  clear_condition(status, condition::kInvalid, "Valid", pass.stamp());
  clear_condition(status, condition::kSuspended, "Resumed", pass.stamp());
  if (pass.job.spec.image || status.image.empty())
    status.image = image_of(pass.job.spec, pass.observed.installation);
  status.selector =
      "coxswain.dev/job=" + pass.job.metadata.name + ",training.kubeflow.org/replica-type=worker";
  if (!resumed) --status.attempt;  // the first gang is attempt 0
  new_attempt(pass.job, status, pass.job.spec.worker.replicas, pass.stamp());
  status.phase = phase_of(status);
  std::string message = fmt::format("a gang of {} workers", status.workers);
  if (const ReplicaSpec* servers = traits_of(Role::kServer).replicas(pass.job.spec))
    message += fmt::format(" and {} servers", servers->replicas);
  return decide(std::move(pass), {false, resumed ? "Resumed" : "Started", message});
}

// The objects a gang needs, then its missing workers, all of them at once.
std::vector<Action> create_missing(const Pass& pass) {
  std::vector<Action> actions;
  const std::set<int> done = parse_ranks(pass.status.succeeded_ranks);
  for (const WorkerId& id : pass.view.wanted) {
    const bool is_done = id.role == Role::kWorker && done.contains(id.index);
    if (!pass.view.find(id) && !is_done) actions.push_back(CreateWorker{id});
  }
  if (actions.empty()) return actions;
  const Spec& spec = pass.job.spec;
  std::vector<Action> objects = {EnsureObject{ObjectKind::kService}};
  if (needs_keys(spec)) objects.push_back(EnsureObject{ObjectKind::kSecret});
  objects.push_back(EnsureObject{ObjectKind::kConfigMap});
  if (has_pod_group(spec.run_policy.scheduling.gang))
    objects.push_back(EnsureObject{ObjectKind::kPodGroup});
  actions.insert(actions.begin(), objects.begin(), objects.end());
  return actions;
}

Plan bring_up(Pass pass) {
  const Time now = pass.observed.now;
  Plan plan = tear_down(pass.job, pass.observed, pass.view.leftover);
  const bool waits = pass.status.next_retry_time && now < *pass.status.next_retry_time;
  if (pass.view.leftover.empty() && waits) come_back_at(plan, pass.status.next_retry_time, now);
  if (pass.view.leftover.empty() && !waits) plan.actions = create_missing(pass);
  if (!plan.actions.empty() && pass.view.leftover.empty() &&
      lacks_keys(pass.job.spec, pass.job.status))
    return make_keys(std::move(pass));  // the status was lost, or is older than the drawn names
  if (pass.observed.rejection) come_back_at(plan, now + kRetryRejected, now);
  if (const Predecessor* predecessor = pass.view.predecessor)
    come_back_at(plan, std::max(stuck_time(pass.job, *predecessor), now + kRetryRejected), now);
  come_back_at(plan, next_deadline(pass), now);
  const bool runs_now = is_true(pass.status, condition::kRunning);
  if (runs_now && !is_true(pass.job.status, condition::kRunning))
    plan.events.push_back({false, "Running", "every pod is Ready"});
  tell_of_rejection(pass, plan);
  plan.status = std::move(pass.status);
  return plan;
}

}  // namespace

Plan plan(const TrainingJob& job, const Observed& observed) {
  if (!is_ours(job)) return leave_alone(job);
  if (is_terminal(job.status)) return clean_up(job, observed);
  const GangView view = view_gang(job, observed);
  Pass pass{job, observed, view, with_observations(job, observed, view)};
  if (view.newest_attempt > job.status.attempt || view.newer_incarnation)
    return take_over(std::move(pass));
  if (succeeded(pass)) return finish(std::move(pass));
  if (job.spec.run_policy.suspend) return suspend(std::move(pass));
  if (auto late = overdue(pass)) return fail(std::move(pass), *late);
  if (auto loss = first_loss(pass))
    return is_lost_alone(job.spec, pass.status, *loss) && others_go_on(pass)
               ? replace(std::move(pass), *loss)
               : restart_or_fail(std::move(pass), *loss, false);
  if (auto loss = held_loss(job, observed)) return restart_or_fail(std::move(pass), *loss, true);
  if (job.status.workers == 0) return start(std::move(pass));
  if (auto size = new_size(pass)) return resize(std::move(pass), *size, false);
  if (auto size = degraded_size(pass)) return resize(std::move(pass), *size, true);
  return bring_up(std::move(pass));
}

}  // namespace coxswain::job
