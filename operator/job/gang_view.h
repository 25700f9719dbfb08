#pragma once

#include <map>
#include <utility>
#include <vector>

#include "operator/job/observed.h"
#include "operator/job/training_job.h"

namespace coxswain::job {

// The workers seen, sorted by what the recorded attempt wants of them. Refers to job and observed.
struct GangView {
  std::vector<WorkerId> wanted;                           // ranks in order, then servers
  std::map<std::pair<Role, int>, const Worker*> present;  // of the recorded attempt, wanted
  std::vector<const Worker*> leftover;                    // everything else
  int newest_attempt = -1;  // of any worker seen whose attempt a status can have had
  bool newer_incarnation = false;  // of one than the status wants

  const Predecessor* predecessor = nullptr;  // that keeps some of them from being made

  const Worker* find(const WorkerId& id) const;
};

GangView view_gang(const TrainingJob& job, const Observed& observed);

bool has_ended(const Worker& worker);

// When it was told to leave; nullopt: it was not.
std::optional<Time> told_time(const TrainingJob& job, const Worker& worker);

// When a terminating worker counts as stuck; nullopt: it isn't terminating.
std::optional<Time> stuck_time(const TrainingJob& job, const Worker& worker);

// When a predecessor does.
Time stuck_time(const TrainingJob& job, const Predecessor& predecessor);

}  // namespace coxswain::job
