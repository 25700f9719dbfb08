#pragma once

#include <string>

#include "operator/job/training_job.h"
#include "operator/job/worker_spec.h"

// PURE: the container that trains, and its volumes.
namespace coxswain::cluster {

// Completes the trainer container of a template's PodSpec, or makes it where there is no template:
// image, command, environment, mounts, readiness; and adds the volumes. Gives the container's name;
// empty: none can be told.
std::string add_trainer(const job::TrainingJob& job, const job::WorkerSpec& worker,
                        const job::ReplicaSpec& replicas, const std::string& config_map,
                        job::Json& pod_spec);

}  // namespace coxswain::cluster
