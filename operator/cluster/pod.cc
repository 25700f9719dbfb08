#include "operator/cluster/pod.h"

#include <algorithm>

#include "operator/cluster/pod_json.h"
#include "operator/cluster/pod_labels.h"
#include "operator/cluster/pod_security.h"
#include "operator/cluster/pod_trainer.h"
#include "operator/job/roles.h"
#include "operator/job/worker_spec.h"

namespace coxswain::cluster {

namespace {

constexpr int kTolerationSeconds = 30;  // of a node that is not ready or can't be reached

bool tolerates(const Json& toleration, const char* taint) {
  const std::string key = text_at(toleration, "key");
  const std::string effect = text_at(toleration, "effect");
  return (key == taint || key.empty()) && (effect == "NoExecute" || effect.empty());
}

void add_tolerations(Json& pod_spec) {
  Json& tolerations = list_in(pod_spec, "tolerations");
  for (const char* taint : {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}) {
    const bool said = std::any_of(tolerations.begin(), tolerations.end(),
                                  [&](const Json& given) { return tolerates(given, taint); });
    if (said) continue;
    tolerations.push_back({{"key", taint},
                           {"operator", "Exists"},
                           {"effect", "NoExecute"},
                           {"tolerationSeconds", kTolerationSeconds}});
  }
}

// Of the terms of a required node affinity any one will do, so each gets it.
void avoid_nodes(const std::vector<std::string>& nodes, Json& pod_spec) {
  if (nodes.empty()) return;
  Json& required =
      pod_spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
  Json& terms = list_in(required, "nodeSelectorTerms");
  if (terms.empty()) terms.push_back({{"matchFields", Json::array()}});
  for (Json& term : terms) {
    if (term.empty()) continue;            // it matches no node
    for (const std::string& node : nodes)  // one name each: fields take no more
      list_in(term, "matchFields")
          .push_back({{"key", "metadata.name"}, {"operator", "NotIn"}, {"values", {node}}});
  }
}

void add_scheduling(const job::TrainingJob& job, Json& pod) {
  const job::PodMarks marks = job::pod_marks(job);
  if (!marks.priority_class.empty()) pod["spec"]["priorityClassName"] = marks.priority_class;
  if (!marks.scheduler.empty()) fill(pod["spec"], "schedulerName", marks.scheduler);
  if (!marks.affinity.is_null())  // beside the template's
    pod["spec"]["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        .push_back(marks.affinity);
  avoid_nodes(job.status.avoid_nodes, pod["spec"]);
  pod["metadata"]["labels"].update(Json(marks.labels));
  pod["metadata"]["annotations"].update(Json(marks.annotations));
}

// Ours, and the template's labels and annotations where they don't contradict.
Json pod_metadata(const job::TrainingJob& job, const job::WorkerSpec& worker,
                  const Json& pod_template) {
  Json metadata = object_metadata(job, worker.name);
  metadata["labels"] = worker_labels(job, worker.id);
  metadata["annotations"] = Json::object();
  for (const char* kind : {"labels", "annotations"}) {
    const Json* given = find(pod_template, "metadata");
    given = given ? find(*given, kind) : nullptr;
    if (!given || !given->is_object()) continue;
    for (const auto& [key, value] : given->items()) fill(metadata[kind], key.c_str(), value);
  }
  return metadata;
}

Json pod_spec(const job::TrainingJob& job, const job::WorkerSpec& worker,
              const Json& pod_template) {
  const Json* given = find(pod_template, "spec");
  Json spec = given && given->is_object() ? *given : Json::object();
  spec["hostname"] = worker.name;
  spec["subdomain"] = service_name(job);
  spec["restartPolicy"] = "Never";
  spec["terminationGracePeriodSeconds"] = job.spec.run_policy.termination_grace.count();
  fill(spec, "enableServiceLinks", false);
  // Without it, such pods ask the node's name server, which does not know their peers.
  if (find(spec, "hostNetwork") && spec["hostNetwork"] == true)
    fill(spec, "dnsPolicy", "ClusterFirstWithHostNet");
  add_tolerations(spec);
  return spec;
}

// SSH and our images need the user that they know. Others have their own, or the platform draws
// one (OpenShift).
bool runs_as_our_user(const job::WorkerSpec& worker, const job::ReplicaSpec& replicas) {
  const Json* trainer = job::trainer_container(replicas);
  return !worker.command.empty() || !trainer || !find(*trainer, "image");
}

}  // namespace

Json pod(const job::TrainingJob& job, const job::WorkerId& id) {
  return pod(job, id, config_map_name(job));
}

Json pod(const job::TrainingJob& job, const job::WorkerId& id, const std::string& config_map) {
  const job::ReplicaSpec* own = job::traits_of(id.role).replicas(job.spec);
  const job::ReplicaSpec& replicas = own ? *own : job.spec.worker;
  const job::WorkerSpec worker = job::worker_spec(job, id);
  Json pod = {{"apiVersion", "v1"},
              {"kind", "Pod"},
              {"metadata", pod_metadata(job, worker, replicas.pod_template)},
              {"spec", pod_spec(job, worker, replicas.pod_template)}};
  const std::string trainer = add_trainer(job, worker, replicas, config_map, pod["spec"]);
  if (!trainer.empty()) pod["metadata"]["annotations"][kTrainerAnnotation] = trainer;
  restrict_pod(pod["spec"], runs_as_our_user(worker, replicas));
  add_scheduling(job, pod);
  return pod;
}

}  // namespace coxswain::cluster
