#pragma once

#include <chrono>
#include <compare>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "trainer/contract/worker/progress.h"

// A TrainingJob is a value: what the user asked for (spec) and what was decided and seen (status).
// Field names and meanings are those of docs/contract.md; defaults are filled in when it is read.
namespace coxswain::job {

using Json = nlohmann::json;
using Seconds = std::chrono::seconds;
using Time = std::chrono::sys_seconds;  // UTC; the status stores whole seconds

enum class Strategy { kAllReduce, kParameterServer };
enum class Launcher { kMpi, kEnv };
enum class Role { kWorker, kServer };
enum class CleanPodPolicy { kRunning, kAll, kNone };
enum class SuccessPolicy { kRankZero, kAllWorkers };
enum class GangScheduler { kNone, kVolcano, kCoscheduling };
enum class Framework { kPyTorch, kTensorFlow, kHorovod };
enum class BatchOnResize { kKeep, kPerWorker };
enum class FailureAction { kFail, kRestart, kRestartIgnoringBackoffLimit };

// Role and index name the pod; all three name the log line.
struct WorkerId {
  Role role = Role::kWorker;
  int index = 0;
  int attempt = 0;
  auto operator<=>(const WorkerId&) const = default;
};

struct Metadata {
  std::string name;
  std::string name_space = "default";
  std::string uid;
  std::string resource_version;
  int generation = 0;
  std::optional<Time> creation_time;
  std::optional<Time> deletion_time;
  bool operator==(const Metadata&) const = default;
};

inline constexpr int kMaxWorkers = 4096;

struct ReplicaSpec {
  int replicas = 0;
  Json pod_template;  // PodTemplateSpec as given; null: our own single container
  bool operator==(const ReplicaSpec&) const = default;
};

struct CheckpointPolicy {
  std::optional<int> every_steps;
  int every_seconds = 60;
  int keep = 3;
  bool resume = true;
  int max_failures = 3;
  bool operator==(const CheckpointPolicy&) const = default;
};

struct ElasticPolicy {
  std::optional<int> min_replicas;
  std::optional<int> max_replicas;
  std::optional<Seconds> degraded_start_after;
  BatchOnResize batch = BatchOnResize::kKeep;
  bool operator==(const ElasticPolicy&) const = default;
};

struct SchedulingPolicy {
  GangScheduler gang = GangScheduler::kNone;
  std::string queue;
  std::string priority_class;
  std::optional<int> min_available;
  Json min_resources;
  std::optional<Seconds> schedule_timeout;
  bool operator==(const SchedulingPolicy&) const = default;
};

struct RunPolicy {
  bool suspend = false;
  int backoff_limit = 3;                   // restarts spent on the job's own failures
  std::optional<Seconds> active_deadline;  // from the first Running
  Seconds startup_deadline{600};           // per attempt, from all pods scheduled to Running
  Seconds termination_grace{60};
  Seconds stuck_termination{60};  // from the end of the grace to the delete by force
  CleanPodPolicy clean_pods = CleanPodPolicy::kRunning;
  std::optional<Seconds> ttl_after_finished;
  std::string managed_by;  // empty or kManagedBy: ours
  SchedulingPolicy scheduling;
  bool operator==(const RunPolicy&) const = default;
};

// Empty lists match everything; a rule matches when each of its lists does.
struct FailureRule {
  FailureAction action = FailureAction::kRestart;
  std::vector<int> on_exit_codes;
  std::vector<std::string> on_reasons;
  std::vector<Role> on_roles;
  bool operator==(const FailureRule&) const = default;
};

struct Spec {
  Strategy strategy = Strategy::kAllReduce;
  std::optional<Launcher> launcher;
  std::optional<int> slots_per_worker = 1;  // nullopt: auto
  std::optional<std::string> image;
  ReplicaSpec worker;
  std::optional<ReplicaSpec> server;
  std::optional<Json> training;     // as given; the trainer's configuration reader is its judge
  std::optional<Json> data_volume;  // VolumeSource
  std::optional<Json> checkpoints_volume;  // VolumeSource
  CheckpointPolicy checkpoint;
  std::optional<ElasticPolicy> elastic;
  RunPolicy run_policy;
  std::vector<FailureRule> failure_rules;
  std::optional<SuccessPolicy> success_policy;
  std::optional<std::vector<Framework>> rendezvous;
  bool operator==(const Spec&) const = default;
};

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

struct Condition {
  std::string type;
  bool status = false;
  std::string reason;
  std::string message;
  Time last_transition_time;
  int observed_generation = 0;
  bool operator==(const Condition&) const = default;
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

struct ReplicaStatus {
  int desired = 0;
  int ready = 0;
  int active = 0;
  int succeeded = 0;
  int failed = 0;
  bool operator==(const ReplicaStatus&) const = default;
};

using Progress = contract::Progress;
using CheckpointStatus = contract::CheckpointProgress;

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

// Something wrong with a job, and what to write instead. `line` is 0 where it is not known.
struct Problem {
  std::string path;  // spec.replicaSpecs.Worker.replicas
  int line = 0;
  std::string message;
  bool operator==(const Problem&) const = default;
};

struct TrainingJob {
  Metadata metadata;
  Spec spec;
  Status status;
  std::vector<Problem> problems;     // what reading it found wrong; Invalid while there are any
  std::map<std::string, int> lines;  // of each field's path, if it was read from a file
  bool operator==(const TrainingJob&) const = default;
};

inline constexpr const char* kApiVersion = "coxswain.dev/v1alpha1";
inline constexpr const char* kKind = "TrainingJob";
inline constexpr const char* kManagedBy = "coxswain.dev/operator";

// The spec's optional fields with their defaults, which depend on others.
Launcher launcher(const Spec& spec);             // MPI for AllReduce with `training`, else Env
SuccessPolicy success_policy(const Spec& spec);  // RankZero for MPI, else AllWorkers
int slots_per_worker(const Spec& spec);          // auto: the trainer container's GPU limit, else 1

int gpus_per_worker(const Spec& spec);  // the trainer container's GPU limit

// The container that trains: the one named `trainer`, else the only one. Null if there is no
// template, or none can be told.
const Json* trainer_container(const ReplicaSpec& replicas);

bool is_terminal(const Status& status);                                 // Succeeded or Failed
std::string worker_name(const TrainingJob& job, Role role, int index);  // <job>-worker-<i>

std::string to_text(Role role);  // Worker, Server
std::string to_text(Phase phase);
std::string to_text(const WorkerId& id);      // worker-3 attempt=1
std::string to_text(const Problem& problem);  // line 7: spec.training.epochs: ...

}  // namespace coxswain::job
