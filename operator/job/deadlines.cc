#include "operator/job/deadlines.h"

#include <fmt/format.h>

#include <initializer_list>
#include <vector>

#include "operator/job/classify.h"
#include "operator/job/observation.h"
#include "operator/job/roles.h"

namespace coxswain::job {

namespace {

constexpr Seconds kUnserved{60};  // for workers to end after their servers

std::optional<Time> active_deadline(const Pass& pass) {
  const auto& limit = pass.job.spec.run_policy.active_deadline;
  if (!limit || !pass.status.start_time) return std::nullopt;
  return *pass.status.start_time + *limit;
}

// Runs while every pod is scheduled and not every one was Ready since.
std::optional<Time> startup_deadline(const Pass& pass) {
  const Condition* queued = find_condition(pass.status, condition::kQueued);
  const Condition* ready = find_condition(pass.status, condition::kReady);
  if (pass.status.workers == 0 || !queued || queued->status) return std::nullopt;
  const bool not_since =
      ready && !ready->status && ready->last_transition_time <= queued->last_transition_time;
  const bool waits_for_one = !pass.status.replacements.empty() && not_since;
  if (is_true(pass.status, condition::kRunning) && !waits_for_one) return std::nullopt;
  return queued->last_transition_time + pass.job.spec.run_policy.startup_deadline;
}

// The first server that ended well while workers still run; nullptr: none did.
const Worker* first_served(const Pass& pass) {
  const Worker* first = nullptr;
  for (const auto& [place, worker] : pass.view.present)
    if (has_served(pass.job, *worker) && worker->finished_time &&
        (!first || worker->finished_time < first->finished_time))
      first = worker;
  return first;
}

std::optional<Time> unserved_deadline(const Pass& pass) {
  const Worker* first = first_served(pass);
  return first ? std::optional(*first->finished_time + kUnserved) : std::nullopt;
}

Overdue unserved(const Pass& pass) {
  const WorkerId& first = first_served(pass)->id;
  std::vector<std::string> names;
  for (const auto& [place, worker] : pass.view.present)
    if (place.first == Role::kWorker && !has_ended(*worker) && names.size() < 8)
      names.push_back(short_name(place.first, place.second));
  return {"ServerEnded", fmt::format("{} ended, with 0, and {} s later not all workers have: {}",
                                     short_name(first.role, first.index), kUnserved.count(),
                                     fmt::join(names, ", "))};
}

}  // namespace

std::optional<Overdue> overdue(const Pass& pass) {
  const auto passed = [&](std::optional<Time> limit) {
    return limit && pass.observed.now >= *limit;
  };
  if (passed(active_deadline(pass)))
    return Overdue{"DeadlineExceeded",
                   fmt::format("not done {} s after its first Running (activeDeadlineSeconds)",
                               pass.job.spec.run_policy.active_deadline->count())};
  if (passed(startup_deadline(pass)))
    return Overdue{"StartupDeadlineExceeded",
                   fmt::format("not Running {} s after all pods were scheduled: {}",
                               pass.job.spec.run_policy.startup_deadline.count(),
                               fmt::join(waiting_reasons(pass.view, pass.status, 8), "; "))};
  if (passed(unserved_deadline(pass))) return unserved(pass);
  return std::nullopt;
}

std::optional<Time> degraded_start(const Pass& pass) {
  const auto& elastic = pass.job.spec.elastic;
  const bool waits = is_true(pass.status, condition::kQueued) &&
                     !is_true(pass.status, condition::kRunning) && pass.status.attempt_start_time;
  if (!elastic || !elastic->degraded_start_after || !waits) return std::nullopt;
  return *pass.status.attempt_start_time + *elastic->degraded_start_after;
}

std::optional<Time> next_deadline(const Pass& pass) {
  const auto degraded = degraded_start(pass);
  const bool is_ahead = degraded && *degraded > pass.observed.now;
  std::optional<Time> next = is_ahead ? degraded : std::nullopt;
  for (const auto& limit : {active_deadline(pass), startup_deadline(pass), unserved_deadline(pass)})
    if (limit && (!next || *limit < *next)) next = limit;
  return next;
}

}  // namespace coxswain::job
