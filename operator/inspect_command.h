#pragma once

#include <optional>

#include "operator/job_sight.h"

namespace coxswain {

struct LogOptions {
  std::optional<int> rank;
  bool follow = false;
  bool previous = false;
};

// Each prints on standard output, and throws Error: 65 for a job or rank that is not there and for
// what the API server refuses, 69 where it does not answer.
int describe_job(const SightOptions& options);
int show_logs(const SightOptions& options, const LogOptions& logs);
// Drawn anew every `seconds` on a terminal, until the job has ended; else, or if 0, once.
int show_top(const SightOptions& options, int seconds);

}  // namespace coxswain
