#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/job/observed.h"

// PURE: what somebody who looks at a job has seen of it.
namespace coxswain::inspect {

// Value. What happened once. `attempt`: the newest one after it; none in what an older operator
// wrote.
struct PastEvent {
  job::Time time;
  std::optional<int> attempt;
  bool warning = false;
  std::string reason;
  std::string message;
  bool operator==(const PastEvent&) const = default;
};

// Value. A job, its pods or processes, and what is remembered of it, the oldest first.
struct Sighting {
  job::TrainingJob job;
  std::vector<job::Worker> workers;
  std::vector<PastEvent> events;
  std::string events_unread{};  // why they are not known; empty: they are
  job::Time now;
  std::string place;  // "namespace default", "/tmp/coxswain-mnist-x1 on this machine"
};

// An Event of the core API; nullopt: of something else, or without a time.
std::optional<PastEvent> read_event(const job::Json& object);

}  // namespace coxswain::inspect
