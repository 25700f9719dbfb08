#pragma once

#include <string>
#include <variant>

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

std::string to_text(const Action& action);  // one line, without its end

}  // namespace coxswain::job
