#pragma once

#include <optional>
#include <string_view>

namespace coxswain::job {

// A Kubernetes quantity ("500m", "2Gi", "1e3") in its unit; nullopt: it is none, or too large.
std::optional<double> parse_quantity(std::string_view text);

}  // namespace coxswain::job
