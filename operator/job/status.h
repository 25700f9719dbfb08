#pragma once

#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "operator/job/field.h"
#include "operator/job/spec.h"
#include "operator/job/words.h"
#include "trainer/contract/worker/progress.h"

// What was decided about a job, and seen of it. Each object stands beside the table of its fields.
namespace coxswain::job {

enum class Phase {
  kNone,
  kInvalid,
  kSuspended,
  kQueued,    // the gang is decided; not every pod is scheduled
  kStarting,  // scheduled; not every pod was Ready in this attempt
  kRunning,
  kRestarting,  // the gang before is leaving, or the next waits for its back-off
  kSucceeded,
  kFailed,
};
constexpr Words<Phase, 9> words_of(Phase) {
  return {{{Phase::kNone, ""},
           {Phase::kInvalid, "Invalid"},
           {Phase::kSuspended, "Suspended"},
           {Phase::kQueued, "Queued"},
           {Phase::kStarting, "Starting"},
           {Phase::kRunning, "Running"},
           {Phase::kRestarting, "Restarting"},
           {Phase::kSucceeded, "Succeeded"},
           {Phase::kFailed, "Failed"}}};
}

struct Condition {
  std::string type;
  bool status = false;
  std::string reason;
  std::string message;
  Time last_transition_time;
  int observed_generation = 0;
  bool operator==(const Condition&) const = default;
};

inline constexpr std::tuple kConditionFields{
    Field{"type", &Condition::type, {.doc = "Which aspect.", .max_length = 64, .required = true}},
    Field{"status",
          &Condition::status,
          {.doc = "Whether it is so: True or False.",
           .max_length = 64,
           .required = true,
           .as_word = true}},
    Field{"reason", &Condition::reason, {.doc = "Why, in a word."}},
    Field{"message", &Condition::message, {.doc = "Why, in words."}},
    Field{"lastTransitionTime", &Condition::last_transition_time, {.doc = "When it became so."}},
    Field{"observedGeneration",
          &Condition::observed_generation,
          {.doc = "The spec's generation that it speaks of."}},
};

// Restarts by cause. Only `failure` spends backoffLimit.
struct Restarts {
  int failure = 0;
  int preemption = 0;
  int node = 0;
  int startup = 0;
  int resize = 0;
  bool operator==(const Restarts&) const = default;
};

inline constexpr std::tuple kRestartsFields{
    Column{"total",
           +[](const Restarts& r) { return r.failure + r.preemption + r.node + r.startup; },
           {.doc = "Restarts that nobody asked for: all but `resize`."}},
    Field{"failure", &Restarts::failure, {.doc = "The job's own failures."}},
    Field{"preemption",
          &Restarts::preemption,
          {.doc = "Pods that were preempted, evicted or deleted."}},
    Field{"node", &Restarts::node, {.doc = "Lost or drained nodes."}},
    Field{"startup", &Restarts::startup, {.doc = "Gangs that were not Running in time."}},
    Field{"resize", &Restarts::resize, {.doc = "New sizes."}},
};

// The first cause of an attempt's end, not the avalanche after it.
struct Failure {
  Time time;
  int attempt = 0;
  Role role = Role::kWorker;
  int index = 0;
  std::optional<int> rank;  // where the worker said which
  std::string pod;
  std::string node;
  std::optional<int> exit_code;
  std::string reason;
  std::string phase;  // of the trainer: AllReduce, Load, ...
  std::string message;
  bool operator==(const Failure&) const = default;
};

inline constexpr std::tuple kFailureFields{
    Field{"time", &Failure::time, {.doc = "When it was seen."}},
    Field{"attempt", &Failure::attempt, {.doc = "In which attempt."}},
    Field{"role", &Failure::role, {.doc = "Role of the pod."}},
    Field{"index", &Failure::index, {.doc = "Index of the pod in its role."}},
    Field{"rank", &Failure::rank, {.doc = "The rank, where the worker said which."}},
    Field{"pod", &Failure::pod, {.doc = "The pod."}},
    Field{"node", &Failure::node, {.doc = "The pod's node."}},
    Field{"exitCode", &Failure::exit_code, {.doc = "Exit code of the rank or container."}},
    Field{"reason", &Failure::reason, {.doc = "The cause in a word."}},
    Field{"phase", &Failure::phase, {.doc = "What the trainer was doing, as Load or AllReduce."}},
    Field{"message", &Failure::message, {.doc = "The cause in words."}},
};

// A pod of this attempt that was made anew beside the others.
struct Replacement {
  Role role = Role::kWorker;
  int index = 0;
  int incarnation = 0;   // of the pod that is wanted in this place now; 0: the gang's own
  bool awaited = false;  // it was not seen on a node yet
  bool operator==(const Replacement&) const = default;
};

inline constexpr int kMostReplacements = 64;  // of different pods; then the gang is made anew

inline constexpr std::tuple kReplacementFields{
    Field{"role", &Replacement::role, {.doc = "Role of the pod."}},
    Field{"index", &Replacement::index, {.doc = "Index of the pod in its role."}},
    Field{"incarnation",
          &Replacement::incarnation,
          {.doc = "How often it was made anew in this attempt."}},
    Field{"awaited",
          &Replacement::awaited,
          {.doc = "The new one was not seen on a node yet.", .omit_zero = true}},
};

inline constexpr int kMostAvoidedNodes = 8;  // then the job ends: it is not the nodes

struct ReplicaStatus {
  int desired = 0;
  int ready = 0;
  int active = 0;
  int succeeded = 0;
  int failed = 0;
  bool operator==(const ReplicaStatus&) const = default;
};

inline constexpr std::tuple kReplicaStatusFields{
    Field{"desired", &ReplicaStatus::desired, {.doc = "Wanted in this attempt."}},
    Field{"ready", &ReplicaStatus::ready, {.doc = "Ready now."}},
    Field{"active", &ReplicaStatus::active, {.doc = "Made, and not ended."}},
    Field{"succeeded", &ReplicaStatus::succeeded, {.doc = "Ended well."}},
    Field{"failed", &ReplicaStatus::failed, {.doc = "Ended badly."}},
};

using Progress = contract::Progress;

inline constexpr std::tuple kProgressFields{
    Field{"epoch",
          &Progress::epoch,
          {.doc = "The epoch under way, from 1; the last one at the end."}},
    Field{
        "epochs", &Progress::epochs, {.doc = "Epochs to do; 0 where `steps` alone ends the run."}},
    Field{"step", &Progress::step, {.doc = "Steps done."}},
    Field{"steps", &Progress::steps, {.doc = "Steps to do."}},
    Field{"loss",
          &Progress::loss,
          {.doc = "Loss of the last step, as mean over its samples; at the end that of the last "
                  "evaluation."}},
    Field{"accuracy",
          &Progress::accuracy,
          {.doc = "Share of right answers in the last evaluation; before it, of the training "
                  "samples."}},
    Field{"samplesPerSecond",
          &Progress::samples_per_second,
          {.doc = "Samples a second on all ranks together."}},
    Field{"secondsLeft", &Progress::seconds_left, {.doc = "Seconds to the end at this speed."}},
    Field{"worldSize", &Progress::world_size, {.doc = "Ranks."}},
    Field{"scalingEfficiency",
          &Progress::scaling_efficiency,
          {.doc = "Share of their time in which ranks wait for no sum and no peer; 1 is perfect."}},
    Field{"oneRankEfficiency",
          &Progress::one_rank_efficiency,
          {.doc = "This speed by that of as many ranks, each alone (`report.oneRankRate`)."}},
    Field{"top5",
          &Progress::top5,
          {.doc = "As accuracy, of the first five classes (`metrics.topK`)."}},
    Field{"lr", &Progress::lr, {.doc = "The learning rate of the last step."}},
    Field{"epochSeconds",
          &Progress::epoch_seconds,
          {.doc = "Seconds of the last whole epoch's steps."}},
    Field{"seconds",
          &Progress::seconds,
          {.doc = "Seconds in all since this attempt began to train, at the end of the last whole "
                  "epoch."}},
    Field{"time", &Progress::time, {.doc = "When rank 0 said so."}},
};

using CheckpointStatus = contract::CheckpointProgress;

inline constexpr std::tuple kCheckpointStatusFields{
    Field{"step", &CheckpointStatus::step, {.doc = "Steps done at that time."}},
    Field{"time", &CheckpointStatus::time, {.doc = "When it was complete."}},
    Field{"path", &CheckpointStatus::path, {.doc = "Its folder on the volume."}},
    Field{"bytes", &CheckpointStatus::bytes, {.doc = "Its size."}},
};

struct Status {
  Phase phase = Phase::kNone;
  int attempt = 0;
  int workers = 0;    // the size of this attempt; 0: no gang is wanted
  int host_port = 0;  // the first of this attempt's ports on the host's network; 0: it has none
  std::string image;
  std::string keys_secret;  // the Secret that was made for this job; empty: none yet
  Restarts restarts;
  int backoff_step = 0;                    // restarts since the last 10 minutes of Running
  std::optional<Time> attempt_start_time;  // when the attempt was recorded; none before the first
  std::optional<Time> next_retry_time;
  std::string succeeded_ranks;                     // "0-3,7"
  GangScheduler pod_group = GangScheduler::kNone;  // whose PodGroup may be there for the job's pods
  std::vector<Replacement> replacements;           // in this attempt
  std::vector<std::string> avoid_nodes;            // whose devices failed; the newest last
  std::optional<Failure> last_failure;
  std::map<Role, ReplicaStatus> replicas;
  std::optional<Progress> progress;
  std::optional<CheckpointStatus> checkpoint;
  std::vector<Condition> conditions;
  std::optional<Time> start_time;  // the first Running since the job was last resumed
  std::optional<Time> completion_time;
  int observed_generation = 0;
  std::string selector;
  bool operator==(const Status&) const = default;
};

// "1/2"; empty before the first gang.
inline std::string ready_workers(const Status& status) {
  const auto workers = status.replicas.find(Role::kWorker);
  if (workers == status.replicas.end()) return "";
  return fmt::format("{}/{}", workers->second.ready, workers->second.desired);
}

inline constexpr std::tuple kStatusFields{
    Field{"phase",
          &Status::phase,
          {.doc = "The state in a word, made of the conditions.", .omit_zero = true}},
    Column{"ready", &ready_workers, {.doc = "Workers that are Ready, of those wanted."}},
    Field{"attempt",
          &Status::attempt,
          {.doc = "One more for every new gang: failure, preemption, node, startup, resume, "
                  "resize."}},
    Field{
        "workers",
        &Status::workers,
        {.doc = "The size of this attempt; 0 where no gang is wanted.", .range = {0, kMaxWorkers}}},
    Field{"hostPort",
          &Status::host_port,
          {.doc = "The first of this attempt's four ports of a node: SSH, rank endpoint, server, "
                  "MASTER_PORT. Only with hostNetwork.",
           .range = {0, 65535 - 3},
           .omit_zero = true}},
    Field{"image", &Status::image, {.doc = "The trainer image, fixed at the first start."}},
    Field{"keysSecret",
          &Status::keys_secret,
          {.doc = "The Secret that was made for the job's keys."}},
    Object{"restarts",
           &Status::restarts,
           kRestartsFields,
           {.doc = "Restarts by cause. Only `failure` spends backoffLimit."}},
    Field{"backoffStep",
          &Status::backoff_step,
          {.doc = "Restarts since the last 10 minutes of Running.", .omit_zero = true}},
    Field{
        "attemptStartTime", &Status::attempt_start_time, {.doc = "When this attempt was decided."}},
    Field{"nextRetryTime", &Status::next_retry_time, {.doc = "When the next gang is made."}},
    Field{
        "succeededRanks", &Status::succeeded_ranks, {.doc = "Workers that ended well, as 0-3,7."}},
    Field{"podGroup",
          &Status::pod_group,
          {.doc = "The gang scheduler whose PodGroup the job's pods have.", .omit_zero = true}},
    Object{"replacements",
           &Status::replacements,
           kReplacementFields,
           {.doc = "Pods of this attempt that were made anew beside the others.",
            .item_doc = "One pod.",
            .max_items = kMostReplacements}},
    Field{"avoidNodes",
          &Status::avoid_nodes,
          {.doc = "Nodes whose device failed (exit code 72): no later pod of the job runs there. A "
                  "suspension forgets them.",
           .max_items = kMostAvoidedNodes}},
    Object{"lastFailure",
           &Status::last_failure,
           kFailureFields,
           {.doc = "What ended the last attempt: its first cause, not the avalanche after it."}},
    Object{"replicaStatuses",
           &Status::replicas,
           kReplicaStatusFields,
           {.doc = "Pods of this attempt, by role."}},
    Object{"progress",
           &Status::progress,
           kProgressFields,
           {.doc = "How far training is, as rank 0 said last; best effort."}},
    Object{"checkpoint",
           &Status::checkpoint,
           kCheckpointStatusFields,
           {.doc = "The newest complete checkpoint."}},
    Object{"conditions",
           &Status::conditions,
           kConditionFields,
           {.doc = "Invalid, ResourcesRejected, Suspended, Queued, Ready, Running, Restarting, "
                   "Degraded, Succeeded, Failed. The last two never change.",
            .item_doc = "One aspect of the job's state.",
            .max_items = 32}},
    Field{"startTime",
          &Status::start_time,
          {.doc = "The first Running since the job was last resumed."}},
    Field{"completionTime", &Status::completion_time, {.doc = "When the job succeeded or failed."}},
    Field{"observedGeneration",
          &Status::observed_generation,
          {.doc = "The spec's generation that this status speaks of."}},
    Field{"selector",
          &Status::selector,
          {.doc = "Selects the job's workers, for the scale subresource."}},
};

namespace condition {
inline constexpr std::string_view kInvalid = "Invalid";
inline constexpr std::string_view kResourcesRejected = "ResourcesRejected";
inline constexpr std::string_view kSuspended = "Suspended";
inline constexpr std::string_view kQueued = "Queued";    // pods made, not all scheduled
inline constexpr std::string_view kReady = "Ready";      // all pods Ready
inline constexpr std::string_view kRunning = "Running";  // Ready was reached in this attempt
inline constexpr std::string_view kRestarting = "Restarting";
inline constexpr std::string_view kDegraded = "Degraded";
inline constexpr std::string_view kSucceeded = "Succeeded";
inline constexpr std::string_view kFailed = "Failed";
}  // namespace condition

// Nullptr where it was never set.
const Condition* find_condition(const Status& status, std::string_view type);

bool is_true(const Status& status, std::string_view type);

// True if it was set and is False now: what it names is over.
bool is_false(const Status& status, std::string_view type);

// What a condition says now. Its transition time moves only when the truth does.
struct Finding {
  bool status = false;
  std::string reason;
  std::string message;
};
struct Stamp {
  Time time;
  int generation = 0;
};
void set_condition(Status& status, std::string_view type, const Finding& finding,
                   const Stamp& stamp);

// Makes a True condition False; one that never was set stays unsaid.
void clear_condition(Status& status, std::string_view type, const std::string& reason,
                     const Stamp& stamp);

// Within one pass a condition may go and come back: that is no transition from what is stored.
void keep_transition_times(const Status& stored, Status& status);

// A set of worker indices as the status stores it: "0-3,7". Text that is none reads as empty.
std::set<int> parse_ranks(std::string_view text);
std::string to_text(const std::set<int>& ranks);

Json to_json(const Status& status);

// Reads a status that this operator wrote. A field that someone else spoiled reads as absent.
Status read_status(const Json& value);

}  // namespace coxswain::job
