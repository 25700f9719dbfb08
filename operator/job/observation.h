#pragma once

#include "operator/job/gang_view.h"
#include "operator/job/observed.h"
#include "operator/job/training_job.h"

namespace coxswain::job {

// The status with what was seen entered: counts, conditions, progress, succeeded ranks. It decides
// nothing. Progress is entered when the epoch changed or the stored one is 30 s older, by rank 0's
// clock.
Status with_observations(const TrainingJob& job, const Observed& observed, const GangView& view);

// Enters progress and checkpoint however young the stored ones are.
void enter_progress(Status& status, const Observed& observed, const GangView& view);

// The printer's word for a status that has not ended.
Phase phase_of(const Status& status);

// How long a status with new observations may wait to be stored, so that one write tells of many:
// not at all if a condition other than Queued and Ready turned, which users and pipelines wait for,
// or if there is a new checkpoint, or no PodGroup any more; little if anything else worth reading
// did; long if pods were but made, found a node or got Ready, and those that are not have nothing
// to say.
Seconds patience(const Status& before, const Status& after);

// "worker-2: ImagePullBackOff: ..." of the workers that keep the gang from being Ready, the worst
// first, at most `limit`.
std::vector<std::string> waiting_reasons(const GangView& view, const Status& status,
                                         std::size_t limit);

}  // namespace coxswain::job
