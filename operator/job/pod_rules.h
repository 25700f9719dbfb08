#pragma once

#include <string>
#include <vector>

#include "operator/job/training_job.h"

namespace coxswain::job {

// What the API server refuses of a pod, and no schema says: it looks at a template only when a pod
// is made of it, which is too late for whoever wrote the job. `path` is the template's.
void check_pod(const Json& pod_template, const std::string& path, std::vector<Problem>& problems);

// The same of a volume's source.
void check_volume(const Json& source, const std::string& path, std::vector<Problem>& problems);

// Labels and annotations: of a job, or of a template. `path` is of what holds them.
void check_metadata(const Json& metadata, const std::string& path, std::vector<Problem>& problems);

}  // namespace coxswain::job
