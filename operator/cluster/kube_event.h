#pragma once

#include <chrono>
#include <string>

#include "operator/job/plan.h"
#include "operator/job/training_job.h"

namespace coxswain::cluster {

// PURE: an events.k8s.io/v1 Event about the job, as `kubectl describe` shows it; `attempt` is the
// newest one when it happened.
job::Json event_object(const job::TrainingJob& job, const job::Event& event, int attempt,
                       const std::string& reporter, std::chrono::system_clock::time_point now);

}  // namespace coxswain::cluster
