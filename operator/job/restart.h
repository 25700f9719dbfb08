#pragma once

#include <optional>
#include <string>

#include "operator/job/classify.h"
#include "operator/job/observed.h"
#include "operator/job/status.h"
#include "operator/job/training_job.h"

// What a decision does to the status: attempts, budgets, back-off, end.
namespace coxswain::job {

// Counts a loss where it belongs. Something: the job ends of it, with this reason.
struct End {
  std::string reason;
  std::string message;
};
std::optional<End> charge(const Spec& spec, const Loss& loss, Status& status);

// "worker-1 exit=137 OOMKilled: ..."
std::string describe(const Loss& loss);

// "attempt 0 reached its end: epoch 10, accuracy 99.51 %, checkpoint step-00004690.g1"
std::string describe_end(const Status& status);

// Whether all pods of the recorded attempt, or all but those that are made anew, had a node.
bool was_complete(const Status& status);

// Whether its peers train on without the pod that was lost, as the status with this pass's
// observations says. Where peers did not come, or went, no single pod is to be made anew: the gang
// is torn.
bool is_lost_alone(const Spec& spec, const Status& status, const Loss& loss);

// Makes another pod wanted in the place of the one that was lost.
void replace_pod(Status& status, const Failure& failure);

// Sets when the next gang or pod may start: at once for the first restart, then after 10 s,
// doubling to 360 s; anew after 10 calm minutes of Running. `before` is the status without this
// pass's observations.
void back_off(const Status& before, Status& status, Time now);

// The next attempt, of `size` workers.
void new_attempt(const TrainingJob& job, Status& status, int size, const Stamp& stamp);

// No gang is wanted any more.
void release_gang(Status& status, const std::string& reason, const Stamp& stamp);

void end_job(Status& status, Phase phase, const Finding& finding, const Stamp& stamp);

// The own cause of a peer that was lost, for the attempt that is held until it is known: what an
// old worker that ended by itself shows, `node` where a pod must be taken away by force, else
// failure once all are gone. nullopt: not known yet, or nothing is held.
std::optional<Loss> held_loss(const TrainingJob& job, const Observed& observed);

}  // namespace coxswain::job
