#pragma once

#include <string>

#include "operator/job/training_job.h"

namespace coxswain::job {

// Block-style YAML 1.1 and 1.2 with keys in order, lists of lines as literal blocks. What reads as
// another type when it stands plain is quoted.
std::string to_yaml(const Json& value);

}  // namespace coxswain::job
