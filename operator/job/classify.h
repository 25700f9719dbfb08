#pragma once

#include <optional>
#include <string>

#include "operator/job/observed.h"
#include "operator/job/training_job.h"

namespace coxswain::job {

// Why a gang can't go on, or why a new one is made.
enum class Cause {
  kFatal,       // again would end the same way
  kPreemption,  // the cluster took a worker away
  kNode,        // a worker's machine is gone
  kFailure,     // the job's own
  kStartup,     // peers did not come in time
  kPeer,        // a peer's death, whose own cause is not seen yet
};

// How one worker of the current attempt went wrong.
struct Loss {
  Cause cause = Cause::kFailure;
  bool ruled = false;                  // a rule of failurePolicy decided
  bool ignores_backoff_limit = false;  // and said this
  bool faults_node = false;            // the device of the worker's machine failed
  Failure failure;
};

// The table of ends and causes: what the end of `worker` means for its gang, if it ended or was
// told to end by someone else. nullopt: it is well, or it ended as it should.
std::optional<Loss> classify(const TrainingJob& job, const Worker& worker, Time now);

// A worker that was there and is no more.
Loss classify_gone(const TrainingJob& job, const WorkerId& id, Time now);

// Which of two losses of one attempt is the first cause: by the rank of its cause (an avalanche
// ranks low), then by time, then by index.
bool precedes(const Loss& a, const Loss& b);

// A server of somebody else's program that ended well, which it may do a moment before the workers
// that need it no more. Whether it was only a moment, later looks tell.
bool has_served(const TrainingJob& job, const Worker& worker);

// Ended for a reason of its own, not because it was told to.
bool ended_by_itself(const TrainingJob& job, const Worker& worker);

std::string to_text(Cause cause);  // Fatal, Preemption, Node, ...

}  // namespace coxswain::job
