#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "operator/job/observed.h"
#include "operator/job/training_job.h"

namespace coxswain::job {

enum class ObjectKind { kService, kSecret, kConfigMap, kPodGroup };
constexpr Words<ObjectKind, 4> words_of(ObjectKind) {
  return {{{ObjectKind::kService, "service"},
           {ObjectKind::kSecret, "secret"},
           {ObjectKind::kConfigMap, "config map"},
           {ObjectKind::kPodGroup, "pod group"}}};
}

// Make it unless it exists. Its name and content follow from the job alone; but where the status
// names no Secret yet, its name is drawn, and told by Observed::keys_secret once it is made.
struct EnsureObject {
  ObjectKind kind = ObjectKind::kService;
  bool operator==(const EnsureObject&) const = default;
};

// Make one worker; worker_spec(job, id) says what it is.
struct CreateWorker {
  WorkerId id;
  bool operator==(const CreateWorker&) const = default;
};

// SIGTERM, then KILL after `grace`. By force: taken out of the books at once, which proves no
// death.
struct DeleteWorker {
  WorkerId id;
  std::string uid;  // only this very pod
  Seconds grace{0};
  bool force = false;
  bool operator==(const DeleteWorker&) const = default;
};

// The group of the job's pods, which none of them needs any more.
struct DeletePodGroup {
  GangScheduler scheduler = GangScheduler::kNone;  // whose
  bool operator==(const DeletePodGroup&) const = default;
};

// ttlSecondsAfterFinished is over.
struct DeleteJob {
  bool operator==(const DeleteJob&) const = default;
};

using Action = std::variant<EnsureObject, CreateWorker, DeleteWorker, DeletePodGroup, DeleteJob>;

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

std::string to_text(const Action& action);  // one line, without its end

// "record attempt=1 phase=Restarting ..." or one action a line; then the requeue.
std::string to_text(const Plan& plan);

}  // namespace coxswain::job
