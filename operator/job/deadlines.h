#pragma once

#include <optional>
#include <string>

#include "operator/job/pass.h"

namespace coxswain::job {

struct Overdue {
  std::string reason;
  std::string message;
};

// The first of the job's deadlines that has passed.
std::optional<Overdue> overdue(const Pass& pass);

// When a gang that still waits for nodes may start with fewer workers.
std::optional<Time> degraded_start(const Pass& pass);

// When time alone will change what is to be done: the earliest of the above.
std::optional<Time> next_deadline(const Pass& pass);

}  // namespace coxswain::job
