#pragma once

#include <optional>
#include <string>

#include "operator/cluster/keys.h"
#include "operator/job/observed.h"
#include "operator/job/scheduling.h"
#include "operator/job/training_job.h"

// PURE: the objects of a job as the API server takes them, and pods as it gives them back. None of
// these throws, whatever the job's templates and the pods hold: what is no object there is left for
// the API server to refuse.
namespace coxswain::cluster {

using job::Json;

inline constexpr const char* kJobLabel = "coxswain.dev/job";
inline constexpr const char* kAttemptLabel = "coxswain.dev/attempt";
inline constexpr const char* kIncarnationLabel = "coxswain.dev/incarnation";  // of 1 and more

// Names that follow from the job alone, its status included.
std::string service_name(const job::TrainingJob& job);     // <job>
std::string secret_name(const job::TrainingJob& job);      // the one that was drawn for it
std::string config_map_name(const job::TrainingJob& job);  // <job>-<8 hex of its content>
using job::pod_group_name;                                 // <job>

// Each with its owner reference: the job, as controller, without blockOwnerDeletion.
Json service(const job::TrainingJob& job);
Json secret(const job::TrainingJob& job, const JobKeys& keys);
Json config_map(const job::TrainingJob& job);
Json pod_group(const job::TrainingJob& job);  // of the job's gang scheduler
Json pod(const job::TrainingJob& job, const job::WorkerId& id);

// The same, for those who make many: the config map's name takes all of its content to find.
Json pod(const job::TrainingJob& job, const job::WorkerId& id, const std::string& config_map);

// What a pod tells of its worker. nullopt: its name and labels name none.
std::optional<job::Worker> worker_of(const Json& pod);

// The job that a pod's labels name: "NS/NAME"; empty: none.
std::string job_key_of(const Json& pod);

}  // namespace coxswain::cluster
