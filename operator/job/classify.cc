#include "operator/job/classify.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <tuple>

#include "operator/job/gang_view.h"
#include "operator/job/roles.h"
#include "trainer/contract/exit_code.h"

namespace coxswain::job {

namespace {

// Reasons of the pod condition DisruptionTarget.
std::optional<Cause> cause_of_disruption(std::string_view reason) {
  if (reason.empty()) return std::nullopt;
  if (reason == "PreemptionByScheduler" || reason == "EvictionByEvictionAPI")
    return Cause::kPreemption;
  return Cause::kNode;  // DeletionByTaintManager, DeletionByPodGC, TerminationByKubelet
}

// Exit codes that mean something only in a termination message of ours.
std::optional<Cause> cause_of_our_code(int code) {
  switch (static_cast<ExitCode>(code)) {
    case ExitCode::kUsage:
    case ExitCode::kBadInput:
    case ExitCode::kNotFinite:
      return Cause::kFatal;
    case ExitCode::kPeersMissing:
      return Cause::kStartup;
    case ExitCode::kDevice:
      return Cause::kNode;
    case ExitCode::kSaved:  // asked for by nobody here: mpirun aborted it
    case ExitCode::kPeerLost:
      return Cause::kPeer;
    default:
      return std::nullopt;
  }
}

// First match wins.
std::optional<Cause> cause_by_table(const TrainingJob& job, const Worker& worker) {
  if (const auto cause = cause_of_disruption(worker.disruption)) return cause;
  if (!has_ended(worker)) {
    if (worker.deletion_time) return Cause::kPreemption;
    return std::nullopt;
  }
  if (worker.phase == WorkerPhase::kFailed && !worker.exit_code) return Cause::kNode;
  if (worker.reason == "OOMKilled") return Cause::kFailure;
  const int code = worker.exit_code.value_or(0);
  if (worker.termination_message)
    if (const auto cause = cause_of_our_code(code)) {
      const bool drained = code == static_cast<int>(ExitCode::kSaved) && worker.deletion_time;
      return drained ? Cause::kPreemption : *cause;
    }
  if (has_served(job, worker)) return std::nullopt;
  if (code == 0 && !serves(job.spec, worker.id.role, worker.id.index)) return std::nullopt;
  return ended_by_itself(job, worker) ? Cause::kFailure : Cause::kPreemption;
}

template <class T>
bool lists(const std::vector<T>& values, const T& value) {
  return values.empty() || std::find(values.begin(), values.end(), value) != values.end();
}

bool matches(const FailureRule& rule, const Worker& worker) {
  if (!lists(rule.on_roles, worker.id.role)) return false;
  if (!rule.on_exit_codes.empty() &&
      (!worker.exit_code || !lists(rule.on_exit_codes, *worker.exit_code)))
    return false;
  return lists(rule.on_reasons, worker.reason) ||
         (!worker.disruption.empty() && lists(rule.on_reasons, worker.disruption));
}

Failure failure_of(const TrainingJob& job, const Worker& worker, Time now) {
  Failure failure;
  failure.time = worker.finished_time.value_or(now);
  failure.attempt = worker.id.attempt;
  failure.role = worker.id.role;
  failure.index = worker.id.index;
  failure.pod = worker_name(job, worker.id.role, worker.id.index);
  failure.node = worker.node;
  failure.exit_code = worker.exit_code;
  failure.reason = worker.disruption.empty() ? worker.reason : worker.disruption;
  failure.message = worker.message;
  if (const auto& said = worker.termination_message) {
    if (said->rank >= 0) failure.rank = said->rank;
    if (failure.reason.empty() || failure.reason == "Error") failure.reason = said->reason;
    failure.phase = said->phase;
    if (!said->message.empty()) failure.message = said->message;
  }
  if (failure.exit_code == 0 && failure.message.empty() && ended_by_itself(job, worker))
    failure.message = "ended before the ranks that it serves";
  if (failure.reason == "OOMKilled")
    failure.message = "memory ran out: raise resources.limits.memory of the template's container";
  if (worker.deletion_time && worker.disruption.empty() && !ended_by_itself(job, worker)) {
    failure.reason = "PodDeleted";
    if (failure.message.empty()) failure.message = "the pod was deleted, not by the operator";
  }
  return failure;
}

}  // namespace

std::optional<Loss> classify(const TrainingJob& job, const Worker& worker, Time now) {
  const auto cause = cause_by_table(job, worker);
  if (!cause) return std::nullopt;
  Loss loss{.cause = *cause, .failure = failure_of(job, worker, now)};
  loss.faults_node = *cause == Cause::kNode && worker.termination_message &&
                     worker.exit_code == static_cast<int>(ExitCode::kDevice);
  const auto& rules = job.spec.failure_rules;
  const auto rule = std::find_if(rules.begin(), rules.end(), [&](const FailureRule& candidate) {
    return matches(candidate, worker);
  });
  if (rule == rules.end()) return loss;
  loss.ruled = true;
  loss.faults_node = false;
  loss.cause = rule->action == FailureAction::kFail ? Cause::kFatal : Cause::kFailure;
  loss.ignores_backoff_limit = rule->action == FailureAction::kRestartIgnoringBackoffLimit;
  return loss;
}

Loss classify_gone(const TrainingJob& job, const WorkerId& id, Time now) {
  Failure failure;
  failure.time = now;
  failure.attempt = id.attempt;
  failure.role = id.role;
  failure.index = id.index;
  failure.pod = worker_name(job, id.role, id.index);
  failure.reason = "PodGone";
  failure.message = "the pod vanished without being deleted by the operator";
  return {.cause = Cause::kPreemption, .failure = failure};
}

bool precedes(const Loss& a, const Loss& b) {
  const auto key = [](const Loss& loss) {
    return std::tuple(loss.cause, loss.failure.time, loss.failure.role, loss.failure.index);
  };
  return key(a) < key(b);
}

bool has_served(const TrainingJob& job, const Worker& worker) {
  return !job.spec.training && worker.id.role != Role::kWorker &&
         worker.phase == WorkerPhase::kSucceeded && ended_by_itself(job, worker);
}

bool ended_by_itself(const TrainingJob& job, const Worker& worker) {
  if (!has_ended(worker)) return false;
  if (!worker.deletion_time || !worker.disruption.empty() || worker.reason == "OOMKilled")
    return true;
  return worker.finished_time && *worker.finished_time < *told_time(job, worker);
}

std::string to_text(Cause cause) {
  constexpr std::array<const char*, 6> kTexts = {"Fatal",   "Preemption", "Node",
                                                 "Failure", "Startup",    "Peer"};
  return kTexts[static_cast<std::size_t>(cause)];
}

}  // namespace coxswain::job
