#pragma once

#include <string>
#include <vector>

#include "operator/job/observed.h"
#include "operator/job/training_job.h"

namespace coxswain::job {

// What is wrong with one role's pod template: what the API server or the Pod Security level of the
// namespace would refuse, what we set ourselves, what can't work. `path` is the template's.
void check_template(const TrainingJob& job, const ReplicaSpec& replicas, const std::string& path,
                    const Installation& installation, std::vector<Problem>& problems);

// A job's own volume: one source, of a kind that the namespace's level allows.
void check_volume_source(const Json& source, const std::string& path,
                         const Installation& installation, std::vector<Problem>& problems);

// [registry/]name[:tag][@digest]
bool is_image_reference(const std::string& text);

}  // namespace coxswain::job
