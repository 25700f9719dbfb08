#include <fmt/format.h>

#include "operator/job/json_fields.h"
#include "operator/job/spec_json.h"

namespace coxswain::job {

namespace {

constexpr Range kCount{0, 2147483647};
constexpr Range kPositive{1, 2147483647};

void read_replicas(JsonFields& parent, std::string_view key, Range range, ReplicaSpec& target) {
  const Json* value = parent.find(key);
  if (!value) return;
  JsonFields fields(*value, parent.path_of(key), parent.problems());
  fields.require("replicas");
  fields.read("replicas", target.replicas, range);
  fields.read_object("template", target.pod_template);
  fields.refuse_unknown();
}

void read_replica_specs(JsonFields& parent, Spec& spec) {
  const Json* value = parent.require("replicaSpecs");
  if (!value) return;
  JsonFields fields(*value, parent.path_of("replicaSpecs"), parent.problems());
  fields.require("Worker");
  read_replicas(fields, "Worker", {1, kMaxWorkers}, spec.worker);
  if (fields.find("Server")) {
    spec.server.emplace();
    read_replicas(fields, "Server", {1, 1024}, *spec.server);
  }
  fields.refuse_unknown();
}

void read_slots(JsonFields& fields, Spec& spec) {
  const Json* value = fields.find("slotsPerWorker");
  if (!value) return;
  if (*value == "auto") {
    spec.slots_per_worker.reset();
  } else if (value->is_string()) {
    fields.refuse(fields.path_of("slotsPerWorker"),
                  "must be an integer or auto, got " + describe(*value));
  } else {
    fields.read("slotsPerWorker", spec.slots_per_worker, {1, 1024});
  }
}

void read_volumes(JsonFields& parent, Spec& spec) {
  const Json* value = parent.find("volumes");
  if (!value) return;
  JsonFields fields(*value, parent.path_of("volumes"), parent.problems());
  fields.read_object("data", spec.data_volume);
  fields.read_object("checkpoints", spec.checkpoints_volume);
  fields.refuse_unknown();
}

void read_checkpoint(JsonFields& parent, CheckpointPolicy& target) {
  const Json* value = parent.find("checkpoint");
  if (!value) return;
  JsonFields fields(*value, parent.path_of("checkpoint"), parent.problems());
  fields.read("everySteps", target.every_steps, kPositive);
  // The limits are those of the training configuration, which these become part of.
  fields.read("everySeconds", target.every_seconds, {1, 1000000});
  fields.read("keep", target.keep, {2, 10000});
  fields.read("resume", target.resume);
  fields.read("maxFailures", target.max_failures, {1, 1000});
  fields.refuse_unknown();
}

void read_elastic(JsonFields& parent, Spec& spec) {
  const Json* value = parent.find("elasticPolicy");
  if (!value) return;
  ElasticPolicy& target = spec.elastic.emplace();
  JsonFields fields(*value, parent.path_of("elasticPolicy"), parent.problems());
  fields.read("minReplicas", target.min_replicas, {1, kMaxWorkers});
  fields.read("maxReplicas", target.max_replicas, {1, kMaxWorkers});
  fields.read("degradedStartAfterSeconds", target.degraded_start_after, kCount);
  fields.read("batch", target.batch, kBatchesOnResize);
  fields.refuse_unknown();
}

void read_scheduling(JsonFields& parent, SchedulingPolicy& target) {
  const Json* value = parent.find("schedulingPolicy");
  if (!value) return;
  JsonFields fields(*value, parent.path_of("schedulingPolicy"), parent.problems());
  fields.read("gang", target.gang, kGangSchedulers);
  fields.read("queue", target.queue);
  fields.read("priorityClass", target.priority_class);
  fields.read("minAvailable", target.min_available, {1, 8192});
  fields.read_object("minResources", target.min_resources);
  fields.read("scheduleTimeoutSeconds", target.schedule_timeout, kPositive);
  fields.refuse_unknown();
}

void read_run_policy(JsonFields& parent, RunPolicy& target) {
  const Json* value = parent.find("runPolicy");
  if (!value) return;
  JsonFields fields(*value, parent.path_of("runPolicy"), parent.problems());
  fields.read("suspend", target.suspend);
  fields.read("backoffLimit", target.backoff_limit, kCount);
  fields.read("activeDeadlineSeconds", target.active_deadline, kPositive);
  fields.read("startupDeadlineSeconds", target.startup_deadline, kPositive);
  fields.read("terminationGracePeriodSeconds", target.termination_grace, kCount);
  fields.read("stuckTerminationSeconds", target.stuck_termination, kCount);
  fields.read("cleanPodPolicy", target.clean_pods, kCleanPodPolicies);
  fields.read("ttlSecondsAfterFinished", target.ttl_after_finished, kCount);
  fields.read("managedBy", target.managed_by);
  read_scheduling(fields, target.scheduling);
  fields.refuse_unknown();
}

FailureRule read_rule(const JsonFields::Element& element, std::vector<Problem>& problems) {
  FailureRule rule;
  JsonFields fields(element.value, element.path, problems);
  fields.require("action");
  fields.read("action", rule.action, kFailureActions);
  for (const auto& [value, path] : fields.elements("onExitCodes"))
    if (const auto code = fields.integer(value, path, {1, 255}))
      rule.on_exit_codes.push_back(static_cast<int>(*code));
  for (const auto& [value, path] : fields.elements("onReasons")) {
    if (value.is_string()) rule.on_reasons.push_back(value.get<std::string>());
    if (!value.is_string()) fields.refuse(path, "must be a text, got " + describe(value));
  }
  for (const auto& [value, path] : fields.elements("onRoles")) {
    Role role{};
    if (fields.read_word(value, path, role, kRoles)) rule.on_roles.push_back(role);
  }
  fields.refuse_unknown();
  return rule;
}

void read_failure_policy(JsonFields& parent, std::vector<FailureRule>& rules) {
  const Json* value = parent.find("failurePolicy");
  if (!value) return;
  JsonFields fields(*value, parent.path_of("failurePolicy"), parent.problems());
  for (const auto& element : fields.elements("rules"))
    rules.push_back(read_rule(element, parent.problems()));
  fields.refuse_unknown();
}

void read_rendezvous(JsonFields& fields, Spec& spec) {
  if (!fields.find("rendezvous")) return;
  auto& frameworks = spec.rendezvous.emplace();
  for (const auto& [value, path] : fields.elements("rendezvous")) {
    Framework framework{};
    if (fields.read_word(value, path, framework, kFrameworks)) frameworks.push_back(framework);
  }
}

}  // namespace

Spec read_spec(const Json& value, std::vector<Problem>& problems) {
  Spec spec;
  JsonFields fields(value, "spec", problems);
  fields.read("strategy", spec.strategy, kStrategies);
  fields.read("launcher", spec.launcher, kLaunchers);
  read_slots(fields, spec);
  fields.read("image", spec.image);
  read_replica_specs(fields, spec);
  fields.read_object("training", spec.training);
  read_volumes(fields, spec);
  read_checkpoint(fields, spec.checkpoint);
  read_elastic(fields, spec);
  read_run_policy(fields, spec.run_policy);
  read_failure_policy(fields, spec.failure_rules);
  fields.read("successPolicy", spec.success_policy, kSuccessPolicies);
  read_rendezvous(fields, spec);
  fields.refuse_unknown();
  return spec;
}

}  // namespace coxswain::job
