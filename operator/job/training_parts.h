#pragma once

#include <vector>

#include "operator/job/training_job.h"
#include "trainer/contract/config/trainer_config.h"

namespace coxswain::job {

// The configuration that a job's `training` and `checkpoint` parts make; what is wrong with them is
// added to `problems`, with lines where the job has them. The job must have a `training` part.
contract::TrainerConfig read_training_parts(const TrainingJob& job, std::vector<Problem>& problems);

}  // namespace coxswain::job
