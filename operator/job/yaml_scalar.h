#pragma once

#include <string_view>

#include "operator/job/training_job.h"

namespace coxswain::job {

// A plain scalar by YAML's core schema; what is neither null, boolean nor number is a text.
Json plain_scalar(std::string_view text);

}  // namespace coxswain::job
