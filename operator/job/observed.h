#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/job/training_job.h"
#include "trainer/contract/worker/termination_message.h"

namespace coxswain::job {

enum class WorkerPhase { kPending, kRunning, kSucceeded, kFailed };
constexpr Words<WorkerPhase, 4> words_of(WorkerPhase) {
  return {{{WorkerPhase::kPending, "Pending"},
           {WorkerPhase::kRunning, "Running"},
           {WorkerPhase::kSucceeded, "Succeeded"},
           {WorkerPhase::kFailed, "Failed"}}};
}

// One pod or process as it was last seen. Its end is the trainer container's, not the pod's.
struct Worker {
  WorkerId id;
  std::string uid;  // of this very pod; a delete names it
  WorkerPhase phase = WorkerPhase::kPending;
  bool scheduled = false;
  bool ready = false;
  bool lingers = false;          // the trainer container ended, its pod did not: sidecars run on
  std::optional<int> exit_code;  // once it ended; none for a Failed pod without container statuses
  std::string reason;            // of its end (OOMKilled, Error, Evicted) or of its waiting
                                 // (ImagePullBackOff, Unschedulable)
  std::string message;           // the same, in words
  std::string disruption;        // reason of the condition DisruptionTarget; empty: none
  std::string node;
  std::optional<contract::TerminationMessage> termination_message;  // ours, if it is one
  std::optional<Time> deletion_time;  // deletionTimestamp, which already holds the grace period
  Seconds grace{0};                   // of its deletion
  // By the clock of Observed::now, where deletion_time is another clock's: its grace after it was
  // first seen to leave.
  std::optional<Time> grace_end;
  std::optional<Time> finished_time;  // of the trainer container
  bool operator==(const Worker&) const = default;
};

// The API server's words about the last object that it refused (quota, admission, a foreign name).
struct Rejection {
  std::string reason;  // NameConflict where a foreign object has our name
  std::string message;
  bool operator==(const Rejection&) const = default;
};

// An object of an earlier job of this name, on its way out, in the place of one that is to be made.
// It is not this job's, so nothing is done about it but to wait.
struct Predecessor {
  std::string kind;  // Pod
  std::string name;
  std::string node;  // of a pod
  Time since;        // first met, by the clock of Observed::now
  bool operator==(const Predecessor&) const = default;
};

// The levels of the Pod Security standards, from the widest on.
enum class PodSecurity { kPrivileged, kBaseline, kRestricted };
constexpr Words<PodSecurity, 3> words_of(PodSecurity) {
  return {{{PodSecurity::kPrivileged, "privileged"},
           {PodSecurity::kBaseline, "baseline"},
           {PodSecurity::kRestricted, "restricted"}}};
}

// What the operator was installed with, and what it found in the job's namespace.
struct Installation {
  std::string trainer_image = "coxswain/trainer-cpu";        // of jobs that name none,
  std::string trainer_cuda_image = "coxswain/trainer-cuda";  // and ask for NVIDIA's GPUs
  PodSecurity pod_security = PodSecurity::kRestricted;  // of the namespace; templates stay inside
  std::string pod_security_doubt{};  // why its own label is not known; empty: it is
  bool operator==(const Installation&) const = default;
};

// The image of a job's first gang.
inline const std::string& image_of(const Spec& spec, const Installation& installation) {
  if (spec.image) return *spec.image;
  return asks_for_cuda(spec) ? installation.trainer_cuda_image : installation.trainer_image;
}

// Everything that `plan` may know besides the job. The clock is data.
struct Observed {
  Time now;
  std::vector<Worker> workers;  // of this job's uid, every attempt, terminating ones too
  std::vector<Worker> gone;     // as they were last seen: those that failed, of this attempt and
                                // the one before, as far as somebody remembers
  std::optional<Progress> progress;
  std::optional<CheckpointStatus> checkpoint;
  std::string keys_secret;  // a Secret that was made for this job, while its status names none
  std::optional<Rejection> rejection;      // until a create succeeds
  std::optional<Predecessor> predecessor;  // until it is gone
  Installation installation;
  bool operator==(const Observed&) const = default;
};

std::string to_text(const Observed& observed);  // a table, one worker a line

}  // namespace coxswain::job
