#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "operator/job/field.h"
#include "operator/job/words.h"

// What a user asks for. Each object stands beside the table of its fields: a new field is a member
// and a row.
namespace coxswain::job {

inline constexpr int kMaxWorkers = 4096;
inline constexpr int kMaxServers = 1024;

struct ReplicaSpec {
  int replicas = 0;
  Json pod_template;  // PodTemplateSpec as given; null: our own single container
  bool operator==(const ReplicaSpec&) const = default;
};

constexpr auto replica_fields(std::string_view how_many, int max) {
  return std::tuple(
      Field{"replicas",
            &ReplicaSpec::replicas,
            {.doc = how_many, .range = {1, max}, .required = true}},
      Field{"template",
            &ReplicaSpec::pod_template,
            {.doc = "The pod of each: a PodTemplateSpec. Without it one container `trainer` with "
                    "spec.image, within Pod Security `restricted`. The container that trains is "
                    "the one named `trainer`, else the only one.",
             .schema = "PodTemplateSpec"}});
}

struct CheckpointFrom {
  std::optional<int> epoch;
  std::optional<int> step;
  std::optional<std::string> path;
  bool operator==(const CheckpointFrom&) const = default;
};

inline constexpr std::tuple kCheckpointFromFields{
    Field{"epoch",
          &CheckpointFrom::epoch,
          {.doc = "The volume's checkpoint of the end of this epoch (MXNet's load_epoch).",
           .range = {1, 1000000}}},
    Field{"step", &CheckpointFrom::step, {.doc = "The one after this step.", .range = {.min = 1}}},
    Field{"path",
          &CheckpointFrom::path,
          {.doc = "This checkpoint, or the newest of a directory of them, as rank 0 sees it.",
           .max_length = 4096}},
};

struct CheckpointPolicy {
  std::optional<int> every_steps;
  std::optional<int> every_epochs;
  int every_seconds = 60;
  int keep = 3;
  std::optional<int> keep_epochs;  // 0: all
  KeptBest best = KeptBest::kNone;
  bool resume = true;
  std::optional<CheckpointFrom> from;
  int max_failures = 3;
  bool operator==(const CheckpointPolicy&) const = default;
};

// The limits are those of the training configuration, which these become part of.
inline constexpr std::tuple kCheckpointFields{
    Field{"everySteps",
          &CheckpointPolicy::every_steps,
          {.doc = "Steps between checkpoints, beside everySeconds.", .range = {.min = 1}}},
    Field{"everyEpochs",
          &CheckpointPolicy::every_epochs,
          {.doc = "Epochs between checkpoints, beside everySeconds.", .range = {1, 1000000}}},
    Field{"everySeconds",
          &CheckpointPolicy::every_seconds,
          {.doc = "Seconds between checkpoints.", .range = {1, 1000000}}},
    Field{"keep",
          &CheckpointPolicy::keep,
          {.doc = "Checkpoints kept; two at least, so that a damaged one has one before it.",
           .range = {2, 10000}}},
    Field{"keepEpochs",
          &CheckpointPolicy::keep_epochs,
          {.doc = "Checkpoints of epochs' ends kept beside those of keep: all, or the newest so "
                  "many. Without everyEpochs one is made of every epoch.",
           .range = {1, 1000000},
           .zero_word = "all"}},
    Field{
        "best",
        &CheckpointPolicy::best,
        {.doc = "Save and keep the epoch whose evaluation is the best so far; the file BEST names "
                "it."}},
    Object{"from",
           &CheckpointPolicy::from,
           kCheckpointFromFields,
           {.doc = "Begin a run from this checkpoint, one of the three; later attempts go on from "
                   "the run's newest."}},
    Field{"resume",
          &CheckpointPolicy::resume,
          {.doc = "Go on from the newest complete checkpoint; false starts anew and deletes "
                  "nothing."}},
    Field{"maxFailures",
          &CheckpointPolicy::max_failures,
          {.doc = "Failed saves in a row before the run ends with exit code 74.",
           .range = {1, 1000}}},
};

struct ElasticPolicy {
  std::optional<int> min_replicas;
  std::optional<int> max_replicas;
  std::optional<Seconds> degraded_start_after;
  BatchOnResize batch = BatchOnResize::kKeep;
  bool operator==(const ElasticPolicy&) const = default;
};

inline constexpr std::tuple kElasticFields{
    Field{"minReplicas",
          &ElasticPolicy::min_replicas,
          {.doc = "The fewest workers that the job may run with.", .range = {1, kMaxWorkers}}},
    Field{"maxReplicas",
          &ElasticPolicy::max_replicas,
          {.doc = "The most workers that the job may run with.", .range = {1, kMaxWorkers}}},
    Field{"degradedStartAfterSeconds",
          &ElasticPolicy::degraded_start_after,
          {.doc = "Start with minReplicas or more when the rest was not scheduled for so long."}},
    Field{"batch",
          &ElasticPolicy::batch,
          {.doc = "On a new size: `keep` the global batch of the first start, or keep the batch "
                  "`perWorker`."}},
};

struct SchedulingPolicy {
  GangScheduler gang = GangScheduler::kNone;
  std::string queue;
  std::string priority_class;
  std::optional<int> min_available;
  Json min_resources;
  std::optional<Seconds> schedule_timeout;
  std::string topology_key;
  bool operator==(const SchedulingPolicy&) const = default;
};

inline constexpr std::tuple kSchedulingFields{
    Field{"gang",
          &SchedulingPolicy::gang,
          {.doc = "Who places all pods of a gang or none: Volcano or the coscheduling plug-in by "
                  "a PodGroup, Kueue by a group of pods an attempt."}},
    Field{"queue",
          &SchedulingPolicy::queue,
          {.doc = "Volcano's queue; Kueue's LocalQueue, which must be given."}},
    Field{"priorityClass",
          &SchedulingPolicy::priority_class,
          {.doc = "The pods' PriorityClass."}},
    Field{"minAvailable",
          &SchedulingPolicy::min_available,
          {.doc = "Pods of the gang that must fit at once; all unless set.", .range = {1, 8192}}},
    Field{"minResources",
          &SchedulingPolicy::min_resources,
          {.doc = "Resources that must be free at once for the gang, as {cpu: 8, memory: 16Gi}. "
                  "Unless set, what minAvailable pods ask for with Volcano, none with "
                  "Coscheduling.",
           .schema = "ResourceList"}},
    Field{"scheduleTimeoutSeconds",
          &SchedulingPolicy::schedule_timeout,
          {.doc = "How long the scheduler may try; Coscheduling only.", .range = {.min = 1}}},
    Field{"topologyKey",
          &SchedulingPolicy::topology_key,
          {.doc = "A label of nodes, as topology.kubernetes.io/zone: pods go where others of the "
                  "job are, by its value, if there is room. Unless set, anywhere."}},
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

inline constexpr std::tuple kRunPolicyFields{
    Field{"suspend",
          &RunPolicy::suspend,
          {.doc = "Save, stop and delete the pods; false goes on from the newest checkpoint. A "
                  "suspended job takes any change."}},
    Field{"backoffLimit",
          &RunPolicy::backoff_limit,
          {.doc = "Restarts spent on the job's own failures. Restarts for preemption, lost nodes "
                  "or one late start are counted apart and spend none."}},
    Field{"activeDeadlineSeconds",
          &RunPolicy::active_deadline,
          {.doc = "Seconds from the first Running until the job fails; queueing never counts.",
           .range = {.min = 1}}},
    Field{"startupDeadlineSeconds",
          &RunPolicy::startup_deadline,
          {.doc = "Seconds from all pods scheduled to Running, for each attempt.",
           .range = {.min = 1}}},
    Field{"terminationGracePeriodSeconds",
          &RunPolicy::termination_grace,
          {.doc = "Seconds from SIGTERM, on which rank 0 saves, to SIGKILL."}},
    Field{"stuckTerminationSeconds",
          &RunPolicy::stuck_termination,
          {.doc = "Seconds from the end of a deleted pod's grace until it is deleted by force."}},
    Field{"cleanPodPolicy",
          &RunPolicy::clean_pods,
          {.doc = "Which pods are deleted when the job ends. Running: those of which a container "
                  "still runs, sidecars after terminationGracePeriodSeconds. Pods that only serve "
                  "go under every policy."}},
    Field{"ttlSecondsAfterFinished",
          &RunPolicy::ttl_after_finished,
          {.doc = "Seconds from the job's end until it is deleted; unset keeps it."}},
    Field{"managedBy",
          &RunPolicy::managed_by,
          {.doc = "The controller that runs the job: coxswain.dev/operator unless set. Can't be "
                  "changed.",
           .max_length = 253}},
    Object{"schedulingPolicy",
           &RunPolicy::scheduling,
           kSchedulingFields,
           {.doc = "Scheduling of all pods together, or none."}},
};

// Empty lists match everything; a rule matches when each of its lists does.
struct FailureRule {
  FailureAction action = FailureAction::kRestart;
  std::vector<int> on_exit_codes;
  std::vector<std::string> on_reasons;
  std::vector<Role> on_roles;
  bool operator==(const FailureRule&) const = default;
};

inline constexpr std::tuple kFailureRuleFields{
    Field{"action",
          &FailureRule::action,
          {.doc = "What follows. RestartIgnoringBackoffLimit spends none of backoffLimit.",
           .required = true}},
    Field{"onExitCodes",
          &FailureRule::on_exit_codes,
          {.doc = "Exit codes that the rule is for; all unless set.",
           .range = {1, 255},
           .max_items = 255}},
    Field{"onReasons",
          &FailureRule::on_reasons,
          {.doc = "Reasons that the rule is for, as Evicted or OOMKilled; all unless set.",
           .max_items = 64,
           .max_length = 256}},
    Field{"onRoles",
          &FailureRule::on_roles,
          {.doc = "Roles that the rule is for; all unless set.", .max_items = 3}},
};

struct Spec {
  Strategy strategy = Strategy::kAllReduce;
  std::optional<Launcher> launcher;
  int slots_per_worker = 1;  // 0: auto
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

inline constexpr std::tuple kReplicaSpecsFields{
    Object{"Worker",
           &Spec::worker,
           replica_fields("How many workers.", kMaxWorkers),
           {.doc = "The workers: pods that train.", .required = true}},
    Object{"Server",
           &Spec::server,
           replica_fields("How many servers.", kMaxServers),
           {.doc = "The parameter servers, with strategy ParameterServer: as many as there are "
                   "workers, unless set."}},
};

inline constexpr std::tuple kVolumesFields{
    Field{"data",
          &Spec::data_volume,
          {.doc = "The training data, at /data in every pod.", .schema = "VolumeSource"}},
    Field{"checkpoints",
          &Spec::checkpoints_volume,
          {.doc = "The checkpoints, at /checkpoints: in worker 0 alone for jobs with `training` "
                  "(ReadWriteOnce is enough), else in every pod.",
           .schema = "VolumeSource"}},
};

inline constexpr std::tuple kFailurePolicyFields{
    Object{"rules",
           &Spec::failure_rules,
           kFailureRuleFields,
           {.doc = "The first rule that matches decides; without one a restart, except on exit "
                   "codes 2, 65 and 76, which can't get better.",
            .max_items = 64}},
};

inline constexpr std::tuple kSpecFields{
    Field{"strategy",
          &Spec::strategy,
          {.doc = "How the ranks exchange gradients. AllReduce: with each other. ParameterServer: "
                  "with servers, each of which holds a part of the weights and updates it."}},
    Field{"launcher",
          &Spec::launcher,
          {.doc = "MPI: worker 0 runs mpirun over the hostfile. Env: every pod starts its own "
                  "ranks. MPI for AllReduce with `training`, else Env, unless set."}},
    Field{"slotsPerWorker",
          &Spec::slots_per_worker,
          {.doc = "Ranks in each worker: a number from 1 to 1024, or `auto`: the GPU limit of the "
                  "container that trains, else 1.",
           .range = {1, 1024},
           .zero_word = "auto"}},
    Field{"image",
          &Spec::image,
          {.doc = "Image of pods whose template names none; unless set, the operator's trainer "
                  "image, with CUDA where the template asks for NVIDIA's GPUs. Kept in the status "
                  "from the first start on.",
           .max_length = 512}},
    Group{"replicaSpecs",
          kReplicaSpecsFields,
          {.doc = "The pods of the job, by role.", .required = true}},
    Field{"training", &Spec::training, {.schema = "training"}},
    Group{"volumes",
          kVolumesFields,
          {.doc = "The job's volumes: one source each, as persistentVolumeClaim: {claimName: "
                  "mnist}."}},
    Object{"checkpoint",
           &Spec::checkpoint,
           kCheckpointFields,
           {.doc = "When checkpoints are written, and what becomes of them."}},
    Object{"elasticPolicy",
           &Spec::elastic,
           kElasticFields,
           {.doc = "With it Worker.replicas may change in a running job: it saves, and a new gang "
                   "of the new size goes on."}},
    Object{"runPolicy",
           &Spec::run_policy,
           kRunPolicyFields,
           {.doc = "How the job runs, ends, and is cleaned up."}},
    Group{"failurePolicy", kFailurePolicyFields, {.doc = "What follows when a worker fails."}},
    Field{"successPolicy",
          &Spec::success_policy,
          {.doc = "RankZero: the job succeeds with rank 0. AllWorkers: with the last worker. "
                  "RankZero for launcher MPI, else AllWorkers, unless set."}},
    Field{"rendezvous",
          &Spec::rendezvous,
          {.doc = "Other frameworks whose variables the pods get too; all that fit unless set: "
                  "Horovod with launcher MPI, PyTorch and TensorFlow with Env. MXNet, with "
                  "strategy ParameterServer, only where it is named here: the job gets one pod "
                  "more, its scheduler, of the template of Server.",
           .max_items = 4}},
};

}  // namespace coxswain::job
