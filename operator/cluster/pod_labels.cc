#include "operator/cluster/pod_labels.h"

#include "operator/cluster/pod.h"

namespace coxswain::cluster {

Json object_metadata(const job::TrainingJob& job, const std::string& name) {
  const Json owner = {{"apiVersion", job::kApiVersion},
                      {"kind", job::kKind},
                      {"name", job.metadata.name},
                      {"uid", job.metadata.uid},
                      {"controller", true}};
  const Json labels = {{kJobLabel, job.metadata.name},
                       {"training.kubeflow.org/job-name", job.metadata.name},
                       {"training.kubeflow.org/operator-name", "coxswain"}};
  return {{"name", name},
          {"namespace", job.metadata.name_space},
          {"labels", labels},
          {"ownerReferences", Json::array({owner})}};
}

Json worker_labels(const job::TrainingJob& job, const job::WorkerId& id) {
  const std::string_view type = contract::to_text(id.role);
  // "master" is the word by which dashboards find the pod whose log tells of the job.
  const bool tells = id.role == job::Role::kWorker && id.index == 0;
  Json labels = object_metadata(job, "").at("labels");
  labels[kAttemptLabel] = std::to_string(id.attempt);
  if (id.incarnation > 0) labels[kIncarnationLabel] = std::to_string(id.incarnation);
  labels["training.kubeflow.org/job-role"] = tells ? "master" : type;
  labels[kReplicaTypeLabel] = type;
  labels[kReplicaIndexLabel] = std::to_string(id.index);
  return labels;
}

}  // namespace coxswain::cluster
