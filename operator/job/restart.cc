#include "operator/job/restart.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "operator/job/gang_view.h"
#include "operator/job/roles.h"
#include "trainer/contract/exit_code.h"

namespace coxswain::job {

namespace {

constexpr Seconds kFirstDelay{10};
constexpr Seconds kLongestDelay{360};
constexpr Seconds kCalm{600};  // of Running, after which back-off starts anew

Loss forced_loss(const TrainingJob& job, const Worker& worker, Time now) {
  Loss loss = classify_gone(job, worker.id, now);
  loss.cause = Cause::kNode;
  loss.failure.node = worker.node;
  loss.failure.reason = "StuckTermination";
  loss.failure.message = "did not end after it was deleted; its node is taken for lost";
  return loss;
}

// In the second in which it was told to leave, but not as one ends that is told.
bool ended_of_its_own_cause(const TrainingJob& job, const Worker& worker) {
  if (!has_ended(worker) || !worker.deletion_time || !worker.exit_code) return false;
  constexpr int kAsTold[] = {0, static_cast<int>(ExitCode::kSaved), 128 + 15};  // 15: SIGTERM
  return worker.finished_time == told_time(job, worker) &&
         std::ranges::count(kAsTold, *worker.exit_code) == 0;
}

// A gang that does not come together once may be the cluster's accident; twice in a row, with no
// Running between, it is taken for the job's own failure.
bool failed_to_start_before(const Status& status) {
  const Condition* restarting = find_condition(status, condition::kRestarting);
  return restarting && restarting->status && restarting->reason == to_text(Cause::kStartup);
}

// A node that failed is not to get another pod of the job. The only one there is, or one that the
// template names, got it all the same: again would end the same way.
std::optional<End> avoid_node(const Failure& failure, Status& status) {
  auto& avoided = status.avoid_nodes;
  if (failure.node.empty()) return std::nullopt;
  if (std::ranges::count(avoided, failure.node) > 0)
    return End{"NodeFault", fmt::format("failed again on {}, which no other node stood in for: {}",
                                        failure.node, describe({.failure = failure}))};
  if (std::ssize(avoided) == kMostAvoidedNodes)
    return End{"NodeFault", fmt::format("failed on {}, and before on {}: {}", failure.node,
                                        fmt::join(avoided, ", "), describe({.failure = failure}))};
  avoided.push_back(failure.node);
  return std::nullopt;
}

std::optional<End> spend(const Spec& spec, const Loss& loss, Status& status) {
  const int limit = spec.run_policy.backoff_limit;
  if (status.restarts.failure >= limit)
    return End{"BackoffLimitExceeded", fmt::format("failed after {} restarts (backoffLimit {}): {}",
                                                   status.restarts.failure, limit, describe(loss))};
  ++status.restarts.failure;
  return std::nullopt;
}

}  // namespace

std::optional<End> charge(const Spec& spec, const Loss& loss, Status& status) {
  switch (loss.cause) {
    case Cause::kFatal:
      return End{loss.ruled ? "FailurePolicy" : loss.failure.reason, describe(loss)};
    case Cause::kPreemption:
      ++status.restarts.preemption;
      return std::nullopt;
    case Cause::kNode:
      if (loss.faults_node)
        if (auto end = avoid_node(loss.failure, status)) return end;
      ++status.restarts.node;
      return std::nullopt;
    case Cause::kStartup:
      if (failed_to_start_before(status)) return spend(spec, loss, status);
      ++status.restarts.startup;
      return std::nullopt;
    case Cause::kPeer:  // counted once its own cause is known
      return std::nullopt;
    case Cause::kFailure:
      // A restart that spends nothing is the cluster's affair by the user's own word.
      if (!loss.ignores_backoff_limit) return spend(spec, loss, status);
      ++status.restarts.preemption;
      return std::nullopt;
  }
  return std::nullopt;
}

std::string describe(const Loss& loss) {
  const Failure& failure = loss.failure;
  std::string text = short_name(failure.role, failure.index);
  if (failure.exit_code) text += fmt::format(" exit={}", *failure.exit_code);
  if (!failure.reason.empty()) text += " " + failure.reason;
  if (!failure.message.empty()) text += ": " + failure.message;
  if (loss.faults_node && !failure.node.empty())
    text += fmt::format(" (on {}, which gets no more pods of it)", failure.node);
  return text;
}

void back_off(const Status& before, Status& status, Time now) {
  const Condition* running = find_condition(before, condition::kRunning);
  bool calm = running && running->status && now >= running->last_transition_time + kCalm;
  if (before.last_failure && before.last_failure->attempt == before.attempt)
    calm = calm && now >= before.last_failure->time + kCalm;  // a pod was made anew
  const int step = calm ? 0 : status.backoff_step;
  status.backoff_step = step + 1;
  status.next_retry_time.reset();
  if (step == 0) return;
  const Seconds delay = kFirstDelay * (1 << std::min(step - 1, 10));
  status.next_retry_time = now + std::min(delay, kLongestDelay);
}

std::string describe_end(const Status& status) {
  std::vector<std::string> parts;
  if (status.progress) {
    parts.push_back(fmt::format("epoch {}", status.progress->epoch));
    if (const auto accuracy = status.progress->accuracy)
      parts.push_back(fmt::format("accuracy {:.2f} %", *accuracy * 100));
  }
  if (status.checkpoint) parts.push_back("checkpoint " + status.checkpoint->path);
  return fmt::format("attempt {} reached its end{}{}", status.attempt, parts.empty() ? "" : ": ",
                     fmt::join(parts, ", "));
}

bool was_complete(const Status& status) {
  return is_false(status, condition::kQueued) || !status.replacements.empty();
}

bool is_lost_alone(const Spec& spec, const Status& status, const Loss& loss) {
  const Failure& failure = loss.failure;
  const bool has_room = status.replacements.size() < kMostReplacements ||
                        replacement_of(status, failure.role, failure.index);
  return traits_of(failure.role).is_replaced_alone(spec) && was_complete(status) && has_room &&
         loss.cause != Cause::kPeer && loss.cause != Cause::kStartup;
}

void replace_pod(Status& status, const Failure& failure) {
  auto& all = status.replacements;
  auto place = std::ranges::find_if(all, [&](const Replacement& each) {
    return each.role == failure.role && each.index == failure.index;
  });
  if (place == all.end()) place = all.insert(all.end(), {failure.role, failure.index});
  ++place->incarnation;
  place->awaited = true;
}

void new_attempt(const TrainingJob& job, Status& status, int size, const Stamp& stamp) {
  ++status.attempt;
  status.workers = size;
  status.host_port = draw_host_port(job, status.attempt);
  status.attempt_start_time = stamp.time;
  status.succeeded_ranks.clear();
  status.replacements.clear();
  const GangScheduler gang = job.spec.run_policy.scheduling.gang;
  if (has_pod_group(gang)) status.pod_group = gang;
  status.replicas.clear();
  for (const RoleTraits& traits : roles_of(job.spec))
    status.replicas[traits.role].desired = traits.asked(job.spec);
  set_condition(status, condition::kQueued, {true, "Starting", ""}, stamp);
  set_condition(status, condition::kReady, {false, "Starting", ""}, stamp);
  set_condition(status, condition::kRunning, {false, "Starting", ""}, stamp);
  if (size >= job.spec.worker.replicas)
    clear_condition(status, condition::kDegraded, "Starting", stamp);
}

namespace {

// The conditions of a gang that is no more wanted.
void clear_gang_conditions(Status& status, const std::string& reason, const Stamp& stamp) {
  for (const auto type :
       {condition::kQueued, condition::kRunning, condition::kRestarting, condition::kDegraded})
    clear_condition(status, type, reason, stamp);
  // Whatever kept it from being Ready no longer does.
  if (find_condition(status, condition::kReady))
    set_condition(status, condition::kReady, {false, reason, ""}, stamp);
}

}  // namespace

void release_gang(Status& status, const std::string& reason, const Stamp& stamp) {
  status.workers = 0;
  status.succeeded_ranks.clear();
  status.replicas.clear();
  status.next_retry_time.reset();
  status.start_time.reset();
  clear_gang_conditions(status, reason, stamp);
}

void end_job(Status& status, Phase phase, const Finding& finding, const Stamp& stamp) {
  const bool good = phase == Phase::kSucceeded;
  clear_gang_conditions(status, finding.reason, stamp);
  set_condition(status, good ? condition::kSucceeded : condition::kFailed, finding, stamp);
  status.phase = phase;
  status.completion_time = stamp.time;
  status.next_retry_time.reset();
}

std::optional<Loss> held_loss(const TrainingJob& job, const Observed& observed) {
  const Condition* restarting = find_condition(job.status, condition::kRestarting);
  const bool held = restarting && restarting->status && restarting->reason == to_text(Cause::kPeer);
  if (!held || job.status.workers == 0) return std::nullopt;
  std::optional<Loss> first;
  bool left = false;
  const auto consider = [&](Worker worker) {
    std::optional<Loss> loss;
    const auto stuck = stuck_time(job, worker);
    const bool by_itself = ended_by_itself(job, worker) || ended_of_its_own_cause(job, worker);
    worker.deletion_time.reset();  // by us, so it says nothing about the cause
    if (by_itself) loss = classify(job, worker, observed.now);
    if (!has_ended(worker) && stuck && observed.now >= *stuck)
      loss = forced_loss(job, worker, observed.now);
    if (!loss || loss->cause == Cause::kPeer) return;
    if (!first || precedes(*loss, *first)) first = std::move(loss);
  };
  for (const Worker& worker : observed.workers) {
    if (worker.id.attempt >= job.status.attempt) continue;
    left = true;
    consider(worker);
  }
  for (const Worker& worker : observed.gone)
    if (worker.id.attempt < job.status.attempt) consider(worker);
  if (first || left) return first;
  Loss unknown;
  unknown.cause = Cause::kFailure;
  if (job.status.last_failure) unknown.failure = *job.status.last_failure;
  return unknown;
}

}  // namespace coxswain::job
