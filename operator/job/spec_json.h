#pragma once

#include <vector>

#include "operator/job/training_job.h"

namespace coxswain::job {

// Reads `spec`, with its defaults; what is wrong is added to `problems`.
Spec read_spec(const Json& value, std::vector<Problem>& problems);

// What read_spec() would read as the same; defaults are left out where they are constant.
Json to_json(const Spec& spec);

}  // namespace coxswain::job
