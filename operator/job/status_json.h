#pragma once

#include <optional>
#include <string_view>

#include "operator/job/training_job.h"

namespace coxswain::job {

// Reads a status that this operator wrote. A field that someone else spoiled reads as absent.
Status read_status(const Json& value);

// "2026-01-31T12:00:00Z", with or without fractions of a second, which are dropped.
std::optional<Time> parse_time(std::string_view text);

}  // namespace coxswain::job
