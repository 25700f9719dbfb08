#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/job/observed.h"
#include "operator/job/plan.h"
#include "operator/job/training_job.h"

namespace coxswain {

// What `coxswain run` itself says; the ranks' progress passes it by. Pure.

enum class RunResult { kSucceeded, kSaved, kFailed };

// What happened, one event a line. Text leaves the ordinary course out: the progress tells it.
std::string render_events(const std::vector<job::Event>& events, const job::Status& status,
                          bool as_json);

// The last line of a run (docs/contract.md, "The last line of a run"), whichever format: with all
// restarts of the job, and the last progress that is known, which `last_end` (worker 0) has after
// every orderly end.
std::string render_finished(RunResult result, const job::Status& status,
                            const std::optional<job::Worker>& last_end);

// 0 done, 75 saved and left; a failed job ends with the code of its first cause.
int exit_code(RunResult result, const job::Status& status);

}  // namespace coxswain
