#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/job/action.h"
#include "operator/job/observed.h"
#include "operator/job/training_job.h"

namespace coxswain::job {

struct Event {
  bool warning = false;
  std::string reason;
  std::string message;
  bool operator==(const Event&) const = default;
};

// What to do about one job, decided from what was seen. Pure: same inputs, same plan.
//
// A plan either records a decision (attempt, restarts, size, end; no actions) or acts on the
// recorded one. What was decided is stored before anything is done about it, so that a lost write
// costs a pass, never a restart. Observations (counts, progress) ride along and delay nothing.
struct Plan {
  Status status;                // as it should be stored
  bool decides = false;         // the status holds a new decision; then there are no actions
  std::vector<Action> actions;  // in order; neighbours of one kind may run in parallel
  std::vector<Event> events;    // emitted once the status is stored
  std::optional<Seconds> requeue_after;  // the next deadline, if any
  bool operator==(const Plan&) const = default;
};

// Total: never throws, logs or reads a clock.
Plan plan(const TrainingJob& job, const Observed& observed);

// "record attempt=1 phase=Restarting ..." or one action a line; then the requeue.
std::string to_text(const Plan& plan);

}  // namespace coxswain::job
