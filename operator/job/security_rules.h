#pragma once

#include <string>
#include <vector>

#include "operator/job/json_fields.h"
#include "operator/job/observed.h"
#include "operator/job/training_job.h"

namespace coxswain::job {

// What the Pod Security level of the job's namespace forbids in a PodSpec. What `restricted` needs
// is not asked for here: our pods get it by default.
void check_pod_security(JsonFields& pod, const Installation& installation);
// The same of a template's metadata.
void check_pod_security_annotations(JsonFields& metadata, const Installation& installation);

void check_volume_kind(const std::string& kind, const std::string& path,
                       const Installation& installation, std::vector<Problem>& problems);

// A job acts in its own namespace: no field at any depth may name another.
void refuse_namespaces(const Json& value, const std::string& path, std::vector<Problem>& problems);

}  // namespace coxswain::job
