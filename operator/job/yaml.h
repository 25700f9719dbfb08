#pragma once

#include <string>
#include <string_view>

#include "operator/job/training_job.h"

namespace coxswain::job {

// A plain scalar as kubectl reads it: YAML's core schema, and the flags of YAML 1.1 (yes, off).
// What is neither null, boolean nor number is a text; what is no number of JSON's (.inf) becomes
// NaN.
Json plain_scalar(std::string_view text);

// Block-style YAML 1.1 and 1.2 with keys in order, lists of lines as literal blocks. What reads as
// another type when it stands plain is quoted.
std::string to_yaml(const Json& value);

}  // namespace coxswain::job
