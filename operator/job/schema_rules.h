#pragma once

#include <string>
#include <vector>

#include "operator/job/training_job.h"

namespace coxswain::job {

// What a structural OpenAPI v3 schema of Kubernetes refuses of `value`, which is at `path`: types,
// limits, words, required and unknown fields, twins in lists that are maps. As the API server does
// for `kubectl apply`, but for rules in CEL. A null field is an absent one.
void check_schema(const Json& value, const Json& schema, const std::string& path,
                  std::vector<Problem>& problems);

}  // namespace coxswain::job
