#include "crds/generator/spec_schema.h"

#include <array>

#include "crds/generator/training_schema.h"

namespace coxswain::crd {

namespace {

using namespace job;

// As operator/job/spec_reader.cc takes them; a test compares.
constexpr int kMaxServers = 1024;
constexpr int kMaxSlots = 1024;
constexpr int kMaxCode = 255;

Json replicas(const std::string& meaning, int max, const std::string& what,
              const Json& pod_template) {
  Json schema = object(
      meaning, {{"replicas", integer("How many " + what + ".", 1, max)},
                {"template", described("The pod of each: a PodTemplateSpec. Without it one "
                                       "container `trainer` with spec.image, within Pod Security "
                                       "`restricted`. The container that trains is the one named "
                                       "`trainer`, else the only one.",
                                       pod_template)}});
  return requiring(std::move(schema), {"replicas"});
}

Json replica_specs(const Json& pod_template) {
  Json schema = object(
      "The pods of the job, by role.",
      {{"Worker", replicas("The workers: pods that train.", kMaxWorkers, "workers", pod_template)},
       {"Server", replicas("The parameter servers: not in this version.", kMaxServers, "servers",
                           pod_template)}});
  return requiring(std::move(schema), {"Worker"});
}

Json strategy() {
  Json schema =
      words("How the ranks exchange gradients. Not in this version: ParameterServer.", kStrategies);
  schema["enum"] = {word(kStrategies, Strategy::kAllReduce)};
  return with_default(std::move(schema), word(kStrategies, Strategy::kAllReduce));
}

Json slots() {
  Json schema = described(
      "Ranks in each worker: a number from 1 to 1024, or `auto`: the GPU limit of the container "
      "that trains, else 1.",
      {{kIntOrString, true}, {"maxLength", 8}, {"default", 1}});
  return with_rules(
      std::move(schema),
      {{fmt::format("type(self) == int ? self >= 1 && self <= {} : self == 'auto'", kMaxSlots),
        fmt::format("write a number from 1 to {}, or auto", kMaxSlots)}});
}

Json volumes(const Json& source) {
  return object(
      "The job's volumes: one source each, as persistentVolumeClaim: {claimName: mnist}.",
      {{"data", described("The training data, at /data in every pod.", source)},
       {"checkpoints",
        described("The checkpoints, at /checkpoints: in worker 0 alone for jobs with `training` "
                  "(ReadWriteOnce is enough), else in every pod.",
                  source)}});
}

Json checkpoint() {
  const CheckpointPolicy standard;
  return object(
      "When checkpoints are written, and what becomes of them.",
      {{"everySteps", integer("Steps between checkpoints, beside everySeconds.", 1)},
       {"everySeconds",
        with_default(integer("Seconds between checkpoints.", 1, 1000000), standard.every_seconds)},
       {"keep", with_default(integer("Checkpoints kept; two at least, so that a damaged one has "
                                     "one before it.",
                                     2, 10000),
                             standard.keep)},
       {"resume", with_default(boolean("Go on from the newest complete checkpoint; false starts "
                                       "anew and deletes nothing."),
                               standard.resume)},
       {"maxFailures",
        with_default(
            integer("Failed saves in a row before the run ends with exit code 74.", 1, 1000),
            standard.max_failures)}});
}

Json elastic_policy() {
  const ElasticPolicy standard;
  return object(
      "With it Worker.replicas may change in a running job: it saves, and a new gang of the new "
      "size goes on.",
      {{"minReplicas", integer("The fewest workers that the job may run with.", 1, kMaxWorkers)},
       {"maxReplicas", integer("The most workers that the job may run with.", 1, kMaxWorkers)},
       {"degradedStartAfterSeconds",
        integer("Start with minReplicas or more when the rest was not scheduled for so long.", 0)},
       {"batch", with_default(words("On a new size: `keep` the global batch of the first start, or "
                                    "keep the batch `perWorker`.",
                                    kBatchesOnResize),
                              word(kBatchesOnResize, standard.batch))}});
}

Json scheduling_policy() {
  const SchedulingPolicy standard;
  const Json resources = {{"type", "object"}, {"additionalProperties", {{kIntOrString, true}}}};
  Json schema = object(
      "Scheduling of all pods together, or none.",
      {{"gang",
        with_default(words("The scheduler that gets a PodGroup for the job.", kGangSchedulers),
                     word(kGangSchedulers, standard.gang))},
       {"queue", text("The scheduler's queue; Volcano only.")},
       {"priorityClass", text("The pods' PriorityClass.")},
       {"minAvailable",
        integer("Pods of the gang that must fit at once; all unless set.", 1, 8192)},
       {"minResources", described("Resources that must be free at once for the gang, as {cpu: 8, "
                                  "memory: 16Gi}. Unless set, what minAvailable pods ask for with "
                                  "Volcano, none with Coscheduling.",
                                  resources)},
       {"scheduleTimeoutSeconds",
        integer("How long the scheduler may try; Coscheduling only.", 1)}});
  const auto needs = [](const char* field, const char* gangs, const char* why) {
    return Rule{fmt::format("!has(self.{}) || (has(self.gang) && self.gang in {})", field, gangs),
                why, "", std::string(".") + field};
  };
  constexpr const char* kBoth = "['Volcano', 'Coscheduling']";
  constexpr const char* kNoGroup =
      "only for a gang: set gang: Volcano or Coscheduling, or remove it";
  return with_rules(
      std::move(schema),
      {needs("queue", "['Volcano']", "only Volcano has queues: set gang: Volcano, or remove it"),
       needs("scheduleTimeoutSeconds", "['Coscheduling']",
             "only coscheduling knows it: set gang: Coscheduling, or remove it"),
       needs("minAvailable", kBoth, kNoGroup), needs("minResources", kBoth, kNoGroup)});
}

Json run_policy() {
  const RunPolicy standard;
  return object(
      "How the job runs, ends, and is cleaned up.",
      {{"suspend", with_default(boolean("Save, stop and delete the pods; false goes on from the "
                                        "newest checkpoint. A suspended job takes any change."),
                                standard.suspend)},
       {"backoffLimit",
        with_default(integer("Restarts spent on the job's own failures. Restarts for preemption, "
                             "lost nodes or one late start are counted apart and spend none.",
                             0),
                     standard.backoff_limit)},
       {"activeDeadlineSeconds",
        integer("Seconds from the first Running until the job fails; queueing never counts.", 1)},
       {"startupDeadlineSeconds",
        with_default(integer("Seconds from all pods scheduled to Running, for each attempt.", 1),
                     standard.startup_deadline.count())},
       {"terminationGracePeriodSeconds",
        with_default(integer("Seconds from SIGTERM, on which rank 0 saves, to SIGKILL.", 0),
                     standard.termination_grace.count())},
       {"stuckTerminationSeconds",
        with_default(
            integer("Seconds from the end of a deleted pod's grace until it is deleted by force.",
                    0),
            standard.stuck_termination.count())},
       {"cleanPodPolicy",
        with_default(words("Which pods are deleted when the job ends. Running: those of which a "
                           "container still runs, sidecars after terminationGracePeriodSeconds. "
                           "Pods that only serve go under every policy.",
                           kCleanPodPolicies),
                     word(kCleanPodPolicies, standard.clean_pods))},
       {"ttlSecondsAfterFinished",
        integer("Seconds from the job's end until it is deleted; unset keeps it.", 0)},
       {"managedBy", with(text("The controller that runs the job: " + std::string(kManagedBy) +
                               " unless set. Can't be changed."),
                          "maxLength", 253)},
       {"schedulingPolicy", scheduling_policy()}});
}

Json failure_policy() {
  const Json code = {{"type", "integer"}, {"minimum", 1}, {"maximum", kMaxCode}};
  const Json reason = {{"type", "string"}, {"maxLength", 256}};
  Json role = words("", kRoles);
  role.erase("description");
  Json rule = {{"type", "object"}, {"properties", Json::object()}};
  rule["properties"] = {
      {"action", words("What follows. RestartIgnoringBackoffLimit spends none of backoffLimit.",
                       kFailureActions)},
      {"onExitCodes", list("Exit codes that the rule is for; all unless set.", code, kMaxCode)},
      {"onReasons",
       list("Reasons that the rule is for, as Evicted or OOMKilled; all unless set.", reason, 64)},
      {"onRoles", list("Roles that the rule is for; all unless set.", role, 2)}};
  rule = requiring(std::move(rule), {"action"});
  return object("What follows when a worker fails.",
                {{"rules", list("The first rule that matches decides; without one a restart, "
                                "except on exit codes 2, 65 and 76, which can't get better.",
                                rule, 64)}});
}

Rule at_most_replicas() {
  return {
      "!has(self.elasticPolicy) || !has(self.elasticPolicy.minReplicas) || "
      "self.elasticPolicy.minReplicas <= self.replicaSpecs.Worker.replicas",
      "must be at most replicaSpecs.Worker.replicas", "", ".elasticPolicy.minReplicas"};
}

Rule at_least_replicas() {
  return {
      "!has(self.elasticPolicy) || !has(self.elasticPolicy.maxReplicas) || "
      "self.elasticPolicy.maxReplicas >= self.replicaSpecs.Worker.replicas",
      "must be at least replicaSpecs.Worker.replicas", "", ".elasticPolicy.maxReplicas"};
}

Rule at_most_the_gang() {
  const std::string value = "self.runPolicy.schedulingPolicy.minAvailable";
  return {
      fmt::format("!has(self.runPolicy) || !has(self.runPolicy.schedulingPolicy) || !has({0}) || "
                  "{0} <= self.replicaSpecs.Worker.replicas + "
                  "(has(self.replicaSpecs.Server) ? self.replicaSpecs.Server.replicas : 0)",
                  value),
      "must be at most the pods of the gang", "", ".runPolicy.schedulingPolicy.minAvailable"};
}

Rule rendezvous_of_launcher() {
  const std::string mpi =
      "(has(self.launcher) ? self.launcher == 'MPI' : self.strategy == 'AllReduce' && "
      "has(self.training))";
  return {
      fmt::format("!has(self.rendezvous) || self.rendezvous.all(f, (f == 'Horovod') == {})", mpi),
      "Horovod's ranks find each other by mpirun, with launcher MPI; the variables of PyTorch "
      "and TensorFlow come with launcher Env: set the launcher, or leave the framework out",
      "", ".rendezvous"};
}

// Parts of `spec` that a job keeps from its first gang on.
constexpr auto kFixedParts = std::to_array<const char*>(
    {"strategy", "launcher", "slotsPerWorker", "image", "replicaSpecs.Worker.template",
     "replicaSpecs.Server", "training", "volumes", "checkpoint", "elasticPolicy",
     "runPolicy.schedulingPolicy", "failurePolicy", "successPolicy", "rendezvous"});

// Whether `object` has the part at the path, of which any but the parts of replicaSpecs may lack.
// The API server knows no bound for the cost of an optional (`object.?part`).
std::string has(const std::string& object, const std::string& path) {
  const bool within_optional = path.starts_with("runPolicy.");
  return (within_optional ? fmt::format("has({}.runPolicy) && ", object) : "") +
         fmt::format("has({}.{})", object, path);
}

// Whether the part is the same in both versions, or in neither.
std::string same(const std::string& object, const std::string& old, const std::string& path) {
  return fmt::format("({} ? {} && {}.{} == {}.{} : !({}))", has(object, path), has(old, path),
                     object, path, old, path, has(old, path));
}

std::string is_suspended(const char* job) {
  return fmt::format("(has({0}.spec.runPolicy) && {0}.spec.runPolicy.suspend)", job);
}

constexpr const char* kHasEnded = "(has(oldSelf.status) && has(oldSelf.status.completionTime))";
constexpr const char* kMakeAnew = "delete it and create it anew";

constexpr const char* kSameReplicas =
    "(has(self.spec.elasticPolicy) || "
    "self.spec.replicaSpecs.Worker.replicas == oldSelf.spec.replicaSpecs.Worker.replicas)";

}  // namespace

Json spec_schema(const Json& kubernetes) {
  Json schema = object(
      "What is to be run.",
      {{"strategy", strategy()},
       {"launcher", words("MPI: worker 0 runs mpirun over the hostfile. Env: every pod starts its "
                          "own ranks. MPI for AllReduce with `training`, else Env, unless set.",
                          kLaunchers)},
       {"slotsPerWorker", slots()},
       {"image", with(text("Image of pods without a template; the operator's trainer image unless "
                           "set, kept in the status from the first start on."),
                      "maxLength", 512)},
       {"replicaSpecs", replica_specs(kubernetes.at("PodTemplateSpec"))},
       {"training", training_schema()},
       {"volumes", volumes(kubernetes.at("VolumeSource"))},
       {"checkpoint", checkpoint()},
       {"elasticPolicy", elastic_policy()},
       {"runPolicy", run_policy()},
       {"failurePolicy", failure_policy()},
       {"successPolicy", words("RankZero: the job succeeds with rank 0. AllWorkers: with the last "
                               "worker. RankZero for launcher MPI, else AllWorkers, unless set.",
                               kSuccessPolicies)},
       {"rendezvous",
        list("Other frameworks whose variables the pods get too; all that fit "
             "unless set: Horovod with launcher MPI, PyTorch and TensorFlow with Env.",
             with(Json{{"type", "string"}}, "enum", words("", kFrameworks).at("enum")), 3)}});
  schema = requiring(std::move(schema), {"replicaSpecs"});
  return with_rules(
      std::move(schema),
      {{"!has(self.replicaSpecs.Server)", "parameter servers are not in this version; remove it",
        "", ".replicaSpecs.Server"},
       {"has(self.training) || has(self.replicaSpecs.Worker.template)",
        "write `training`, or a replicaSpecs.Worker.template whose container trains"},
       {"!has(self.checkpoint) || has(self.training)",
        "only with `training`: a program of your own saves as it likes; remove it", "",
        ".checkpoint"},
       {"!has(self.checkpoint) || !has(self.training) || (has(self.volumes) && "
        "has(self.volumes.checkpoints))",
        "nothing is saved without a volume: add volumes.checkpoints, or remove it", "",
        ".checkpoint"},
       at_most_replicas(),
       at_least_replicas(),
       at_most_the_gang(),
       rendezvous_of_launcher(),
       {same("self", "oldSelf", "runPolicy.managedBy"),
        "runPolicy.managedBy can't be changed; make a new job", "", ".runPolicy"}});
}

Rule change_rule() {
  std::string rule = fmt::format(
      "!has(oldSelf.status) || !has(oldSelf.status.attemptStartTime) || {} || {} || "
      "(has(oldSelf.status.conditions) && oldSelf.status.conditions.exists(c, c.type == 'Invalid' "
      "&& c.status == 'True')) || (",
      is_suspended("oldSelf"), is_suspended("self"));
  std::string changed;
  for (const char* part : kFixedParts) {
    const std::string unchanged = same("self.spec", "oldSelf.spec", part);
    rule += unchanged + " && ";
    changed += fmt::format("({} ? '' : ' spec.{}') + ", unchanged, part);
  }
  rule += fmt::format("{})", kSameReplicas);
  changed += fmt::format("({} ? '' : ' spec.replicaSpecs.Worker.replicas')", kSameReplicas);
  const char* advice =
      "set spec.runPolicy.suspend: true to change it; a running job takes changes of runPolicy "
      "alone (but for schedulingPolicy), and of Worker.replicas if it has an elasticPolicy";
  return {
      rule, std::string("fixed once the job has started: ") + advice,
      fmt::format("'fixed once the job has started:' + {} + ({} ? '; it has ended: {}' : '; {}')",
                  changed, kHasEnded, kMakeAnew, advice)};
}

Rule suspend_rule() {
  return {fmt::format("!{} || {} == {}", kHasEnded, is_suspended("self"), is_suspended("oldSelf")),
          fmt::format("the job has ended: {}", kMakeAnew), "", ".spec.runPolicy.suspend"};
}

}  // namespace coxswain::crd
