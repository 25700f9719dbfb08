#include "operator/job/validation.h"
namespace coxswain::job {
std::vector<Problem> validate(const TrainingJob& job, const Installation&) { return job.problems; }
}  // namespace coxswain::job
