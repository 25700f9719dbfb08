#pragma once

#include <optional>
#include <string_view>

#include "operator/job/training_job.h"

namespace coxswain::job {

// A Kubernetes quantity ("500m", "2Gi", "1e3") in its unit; nullopt: it is none, or too large.
std::optional<double> parse_quantity(std::string_view text);

// The same of a field, in which it may be a number too.
std::optional<double> quantity_of(const Json& amount);

}  // namespace coxswain::job
