#pragma once

#include <string>
#include <vector>

#include "operator/job/json_fields.h"
#include "operator/job/training_job.h"

namespace coxswain::job {

// What Pod Security `restricted` forbids in a PodSpec, and what it needs is not asked for here: our
// pods get it by default.
void check_restricted(JsonFields& pod);
void check_restricted_annotations(JsonFields& metadata);  // of a template

void check_volume_kind(const std::string& kind, const std::string& path,
                       std::vector<Problem>& problems);

// A job acts in its own namespace: no field at any depth may name another.
void refuse_namespaces(const Json& value, const std::string& path, std::vector<Problem>& problems);

}  // namespace coxswain::job
