#pragma once

#include <string>

#include "operator/job/training_job.h"

// PURE: what the metadata of a job's objects have in common.
namespace coxswain::cluster {

using job::Json;

inline constexpr const char* kReplicaTypeLabel = "training.kubeflow.org/replica-type";
inline constexpr const char* kReplicaIndexLabel = "training.kubeflow.org/replica-index";

// Names the container that trains: for worker_of(), and for `kubectl logs`.
inline constexpr const char* kTrainerAnnotation = "kubectl.kubernetes.io/default-container";

// Name, namespace, owner reference, and the labels that all objects of a job carry.
Json object_metadata(const job::TrainingJob& job, const std::string& name);

// Those of one worker's pod.
Json worker_labels(const job::TrainingJob& job, const job::WorkerId& id);

}  // namespace coxswain::cluster
