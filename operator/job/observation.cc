#include "operator/job/observation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <tuple>

#include "operator/job/classify.h"
#include "operator/job/roles.h"
#include "operator/job/status.h"
#include "operator/job/worker_spec.h"
#include "trainer/contract/rfc3339.h"

namespace coxswain::job {

namespace {

constexpr Seconds kProgressInterval{30};
constexpr const char* kStarting = "Starting";  // as a new attempt begins
constexpr const char* kNotCreated = "NotCreated";
constexpr const char* kNotReady = "NotReady";
constexpr const char* kUnschedulable = "Unschedulable";
constexpr const char* kPredecessor = "WaitsForPredecessor";

struct Waiting {
  int badness = 0;  // lower is worse
  WorkerId id;
  std::string reason;
  std::string message;
};

// Reasons that don't heal by themselves come first.
int badness(const std::string& reason) {
  constexpr auto kReasons = std::to_array<std::string_view>(
      {"CreateContainerConfigError", "CreateContainerError", "InvalidImageName", "ErrImagePull",
       "ImagePullBackOff", kUnschedulable});
  const auto found = std::find(kReasons.begin(), kReasons.end(), reason);
  const auto place = static_cast<int>(found - kReasons.begin());
  return found == kReasons.end() && reason.empty() ? place + 1 : place;
}

// Has done its part of getting ready: Ready now, or already through.
bool is_up(const Worker& worker) { return worker.ready || worker.phase == WorkerPhase::kSucceeded; }

// "Pod mnist-worker-1 on node-3, of an earlier job of this name,"
std::string in_words(const Predecessor& predecessor) {
  return fmt::format("{} {}{}, of an earlier job of this name,", predecessor.kind, predecessor.name,
                     predecessor.node.empty() ? "" : " on " + predecessor.node);
}

// What somebody else has to do: what is not this job's, this job never takes away by force.
std::string advice(const TrainingJob& job, const Predecessor& predecessor) {
  const bool pod = predecessor.kind == "Pod";
  return fmt::format(
      "{} does not go. {}: kubectl delete {} -n {} {}{}; or give this job another "
      "name",
      in_words(predecessor),
      pod ? "If its node is gone for good, and only then" : "If nothing needs it",
      pod ? "pod" : predecessor.kind, job.metadata.name_space, predecessor.name,
      pod ? " --grace-period=0 --force" : "");
}

// " (status.avoidNodes: node-1)", for a pod that finds no node.
std::string avoided(const Status& status, const std::string& reason) {
  if (reason != kUnschedulable || status.avoid_nodes.empty()) return "";
  return fmt::format(" (status.avoidNodes: {})", fmt::join(status.avoid_nodes, ", "));
}

std::vector<Waiting> waiting_workers(const GangView& view, const Status& status) {
  std::vector<Waiting> waiting;
  for (const WorkerId& id : view.wanted) {
    const Worker* worker = view.find(id);
    if (!worker && view.predecessor)
      waiting.push_back({98, id, kPredecessor, in_words(*view.predecessor) + " is on its way out"});
    else if (!worker)
      waiting.push_back({99, id, kNotCreated, ""});
    if (worker && !is_up(*worker)) {
      const std::string reason = worker->reason.empty() ? kNotReady : worker->reason;
      waiting.push_back(
          {badness(worker->reason), id, reason, worker->message + avoided(status, reason)});
    }
  }
  std::stable_sort(waiting.begin(), waiting.end(),
                   [](const Waiting& a, const Waiting& b) { return a.badness < b.badness; });
  return waiting;
}

std::string in_words(const Waiting& waiting) {
  const std::string_view colon = waiting.message.empty() ? "" : ": ";
  return fmt::format("{}: {}{}{}", short_name(waiting.id.role, waiting.id.index), waiting.reason,
                     colon, waiting.message);
}

// Pods that are not Ready, and don't say why.
bool says_nothing(const Condition& condition) {
  return condition.type == condition::kReady && !condition.status &&
         (condition.reason == kStarting || condition.reason == kNotCreated ||
          condition.reason == kNotReady);
}

void count(const Observed& observed, Status& status) {
  for (auto& [role, counts] : status.replicas) {
    const int desired = counts.desired;
    counts = ReplicaStatus{};
    counts.desired = desired;
  }
  for (const Worker& worker : observed.workers) {
    if (!is_current(status, worker.id)) continue;
    ReplicaStatus& counts = status.replicas[worker.id.role];
    if (worker.ready) ++counts.ready;
    if (!has_ended(worker)) ++counts.active;
    if (worker.phase == WorkerPhase::kSucceeded) ++counts.succeeded;
    if (worker.phase == WorkerPhase::kFailed) ++counts.failed;
  }
}

void enter_succeeded_ranks(const TrainingJob& job, const GangView& view, Status& status) {
  std::set<int> ranks = parse_ranks(status.succeeded_ranks);
  for (const auto& [place, worker] : view.present)
    if (worker->phase == WorkerPhase::kSucceeded && !serves(job.spec, place.first, place.second))
      ranks.insert(place.second);
  status.succeeded_ranks = to_text(ranks);
}

void enter_replacements(const GangView& view, Status& status) {
  for (Replacement& each : status.replacements) {
    const auto found = view.present.find({each.role, each.index});
    if (found != view.present.end() && (found->second->scheduled || has_ended(*found->second)))
      each.awaited = false;
  }
}

// Queued, Ready and Running of a wanted gang. Running True stays for the attempt, and Queued False
// until a pod is to be made anew.
void enter_conditions(const GangView& view, const Stamp& stamp, Status& status) {
  const bool scheduled = std::all_of(view.wanted.begin(), view.wanted.end(), [&](auto& id) {
    const Worker* worker = view.find(id);
    return worker && (worker->scheduled || has_ended(*worker));
  });
  if (scheduled) clear_condition(status, condition::kQueued, "Scheduled", stamp);
  const std::vector<Waiting> waiting = waiting_workers(view, status);
  if (!waiting.empty()) {
    const Waiting& worst = waiting.front();
    set_condition(status, condition::kReady, {false, worst.reason, in_words(worst)}, stamp);
    return;
  }
  set_condition(status, condition::kReady, {true, "AllReady", "every pod is Ready"}, stamp);
  status.next_retry_time.reset();
  if (is_true(status, condition::kRunning)) return;
  set_condition(status, condition::kRunning, {true, "AllReady", "every rank is in training"},
                stamp);
  clear_condition(status, condition::kRestarting, "Running", stamp);
  if (!status.start_time) status.start_time = stamp.time;
}

void enter_rejection(const TrainingJob& job, const Observed& observed, const GangView& view,
                     Status& status) {
  const Stamp stamp{observed.now, job.metadata.generation};
  const Predecessor* predecessor = view.predecessor;
  if (observed.rejection) {
    const Finding finding{true, observed.rejection->reason, observed.rejection->message};
    set_condition(status, condition::kResourcesRejected, finding, stamp);
  } else if (predecessor && observed.now >= stuck_time(job, *predecessor)) {
    set_condition(status, condition::kResourcesRejected,
                  {true, "PredecessorStuck", advice(job, *predecessor)}, stamp);
  } else {
    clear_condition(status, condition::kResourcesRejected, "Accepted", stamp);
  }
}

// Whether what was said at `stored_time` may be followed by what was said at `told_time`. Both are
// rank 0's own times, as no other clock can be trusted to agree with its node's. One that went back
// is of another node.
bool is_due(const std::string& stored_time, const std::string& told_time) {
  const auto stored = parse_rfc3339(stored_time);
  const auto told = parse_rfc3339(told_time);
  return !stored || !told || *told < *stored || *told >= *stored + kProgressInterval;
}

// What rank 0 said with its end: of the present gang, or of one that is leaving and has saved.
const contract::TerminationMessage* last_message(const GangView& view) {
  const auto first = view.present.find({Role::kWorker, 0});
  if (first != view.present.end() && first->second->termination_message)
    return &*first->second->termination_message;
  for (const Worker* worker : view.leftover)
    if (worker->id.role == Role::kWorker && worker->id.index == 0 && worker->termination_message)
      return &*worker->termination_message;
  return nullptr;
}

// A name is of one checkpoint for ever: who resumes from it has nothing new to tell.
void enter_checkpoint(const std::optional<CheckpointStatus>& told, Status& status) {
  const bool is_known = told && status.checkpoint && told->path == status.checkpoint->path;
  if (told && !is_known) status.checkpoint = told;
}

}  // namespace

std::vector<std::string> waiting_reasons(const GangView& view, const Status& status,
                                         std::size_t limit) {
  std::vector<std::string> texts;
  for (const Waiting& waiting : waiting_workers(view, status))
    if (texts.size() < limit) texts.push_back(in_words(waiting));
  return texts;
}

void enter_progress(Status& status, const Observed& observed, const GangView& view) {
  if (observed.progress) status.progress = observed.progress;
  enter_checkpoint(observed.checkpoint, status);
  const contract::TerminationMessage* message = last_message(view);
  if (!message) return;
  if (message->progress) status.progress = message->progress;
  enter_checkpoint(message->checkpoint, status);
}

Seconds patience(const Status& before, const Status& after) {
  constexpr Seconds kLittle{4};
  constexpr Seconds kLong{30};
  const auto turned = [&](const Condition& now) {
    const bool slow = now.type == condition::kQueued || now.type == condition::kReady;
    return !slow && now.status != is_true(before, now.type);
  };
  if (std::any_of(after.conditions.begin(), after.conditions.end(), turned)) return Seconds(0);
  if (after.pod_group != before.pod_group) return Seconds(0);  // else it is taken away again
  // Whoever told of it may be gone at the next look.
  if (after.checkpoint != before.checkpoint) return Seconds(0);
  if (is_terminal(after)) return kLittle;  // what it is left with is nobody's to wait for
  Status read = after;                     // as far as it differs in what is worth reading
  read.phase = before.phase;
  for (auto& [role, counts] : read.replicas) {
    const auto stored = before.replicas.find(role);
    if (stored == before.replicas.end()) continue;
    counts.active = stored->second.active;
    counts.ready = stored->second.ready;
  }
  for (Condition& now : read.conditions) {
    const Condition* stored = find_condition(before, now.type);
    const bool found_nodes = now.type == condition::kQueued && !now.status;
    if (stored && (found_nodes || (says_nothing(*stored) && says_nothing(now)))) now = *stored;
  }
  return read == before ? kLong : kLittle;
}

Phase phase_of(const Status& status) {
  if (is_true(status, condition::kSuspended)) return Phase::kSuspended;
  if (is_true(status, condition::kInvalid)) return Phase::kInvalid;
  if (status.workers == 0) return Phase::kNone;
  if (is_true(status, condition::kRunning)) return Phase::kRunning;
  if (is_true(status, condition::kRestarting)) return Phase::kRestarting;
  return is_true(status, condition::kQueued) ? Phase::kQueued : Phase::kStarting;
}

Status with_observations(const TrainingJob& job, const Observed& observed, const GangView& view) {
  Status status = job.status;
  const Stamp stamp{observed.now, job.metadata.generation};
  status.observed_generation = job.metadata.generation;
  if (needs_keys(job.spec) && status.keys_secret.empty()) status.keys_secret = observed.keys_secret;
  count(observed, status);
  enter_rejection(job, observed, view, status);
  if (status.workers > 0) {
    enter_succeeded_ranks(job, view, status);
    enter_replacements(view, status);
    enter_conditions(view, stamp, status);
  }
  Status fresh = status;
  enter_progress(fresh, observed, view);
  const std::string told_time = fresh.progress ? fresh.progress->time : "";
  const bool due = !status.progress || last_message(view) ||
                   status.progress->epoch != fresh.progress->epoch ||
                   is_due(status.progress->time, told_time);
  if (due) status.progress = fresh.progress;
  if (!status.checkpoint || last_message(view) || is_due(status.checkpoint->time, told_time))
    status.checkpoint = fresh.checkpoint;
  status.phase = phase_of(status);
  return status;
}

}  // namespace coxswain::job
