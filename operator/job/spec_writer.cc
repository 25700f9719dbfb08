#include "operator/job/spec_json.h"
#include "operator/job/words.h"

namespace coxswain::job {

namespace {

template <class T>
void put(Json& object, const char* key, const std::optional<T>& value) {
  if (value) object[key] = *value;
}

void put(Json& object, const char* key, const std::optional<Seconds>& value) {
  if (value) object[key] = value->count();
}

void put(Json& object, const char* key, const std::string& value) {
  if (!value.empty()) object[key] = value;
}

void put_object(Json& object, const char* key, const Json& value) {
  if (!value.is_null() && !value.empty()) object[key] = value;
}

Json to_json(const ReplicaSpec& replicas) {
  Json json = {{"replicas", replicas.replicas}};
  put_object(json, "template", replicas.pod_template);
  return json;
}

Json to_json(const CheckpointPolicy& policy) {
  Json json = {{"everySeconds", policy.every_seconds},
               {"keep", policy.keep},
               {"resume", policy.resume},
               {"maxFailures", policy.max_failures}};
  put(json, "everySteps", policy.every_steps);
  return json;
}

Json to_json(const ElasticPolicy& policy) {
  Json json = {{"batch", word(kBatchesOnResize, policy.batch)}};
  put(json, "minReplicas", policy.min_replicas);
  put(json, "maxReplicas", policy.max_replicas);
  put(json, "degradedStartAfterSeconds", policy.degraded_start_after);
  return json;
}

Json to_json(const SchedulingPolicy& policy) {
  Json json = Json::object();
  if (policy.gang != GangScheduler::kNone) json["gang"] = word(kGangSchedulers, policy.gang);
  put(json, "queue", policy.queue);
  put(json, "priorityClass", policy.priority_class);
  put(json, "minAvailable", policy.min_available);
  put_object(json, "minResources", policy.min_resources);
  put(json, "scheduleTimeoutSeconds", policy.schedule_timeout);
  return json;
}

Json to_json(const RunPolicy& policy) {
  Json json = {{"suspend", policy.suspend},
               {"backoffLimit", policy.backoff_limit},
               {"startupDeadlineSeconds", policy.startup_deadline.count()},
               {"terminationGracePeriodSeconds", policy.termination_grace.count()},
               {"stuckTerminationSeconds", policy.stuck_termination.count()},
               {"cleanPodPolicy", word(kCleanPodPolicies, policy.clean_pods)}};
  put(json, "activeDeadlineSeconds", policy.active_deadline);
  put(json, "ttlSecondsAfterFinished", policy.ttl_after_finished);
  put(json, "managedBy", policy.managed_by);
  put_object(json, "schedulingPolicy", to_json(policy.scheduling));
  return json;
}

Json to_json(const FailureRule& rule) {
  Json json = {{"action", word(kFailureActions, rule.action)}};
  put_object(json, "onExitCodes", rule.on_exit_codes);
  put_object(json, "onReasons", rule.on_reasons);
  Json roles = Json::array();
  for (const Role role : rule.on_roles) roles.push_back(word(kRoles, role));
  put_object(json, "onRoles", roles);
  return json;
}

}  // namespace

Json to_json(const Spec& spec) {
  Json json = {{"strategy", word(kStrategies, spec.strategy)},
               {"checkpoint", to_json(spec.checkpoint)},
               {"runPolicy", to_json(spec.run_policy)}};
  if (spec.launcher) json["launcher"] = word(kLaunchers, *spec.launcher);
  if (spec.slots_per_worker != 1) json["slotsPerWorker"] = "auto";
  put(json, "slotsPerWorker", spec.slots_per_worker);
  put(json, "image", spec.image);
  json["replicaSpecs"]["Worker"] = to_json(spec.worker);
  if (spec.server) json["replicaSpecs"]["Server"] = to_json(*spec.server);
  put(json, "training", spec.training);
  if (spec.data_volume) json["volumes"]["data"] = *spec.data_volume;
  if (spec.checkpoints_volume) json["volumes"]["checkpoints"] = *spec.checkpoints_volume;
  if (spec.elastic) json["elasticPolicy"] = to_json(*spec.elastic);
  for (const FailureRule& rule : spec.failure_rules)
    json["failurePolicy"]["rules"].push_back(to_json(rule));
  if (spec.success_policy) json["successPolicy"] = word(kSuccessPolicies, *spec.success_policy);
  if (spec.rendezvous) {
    json["rendezvous"] = Json::array();
    for (const Framework framework : *spec.rendezvous)
      json["rendezvous"].push_back(word(kFrameworks, framework));
  }
  return json;
}

}  // namespace coxswain::job
