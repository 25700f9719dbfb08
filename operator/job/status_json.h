#pragma once

#include "operator/job/training_job.h"

namespace coxswain::job {

// Reads a status that this operator wrote. A field that someone else spoiled reads as absent.
Status read_status(const Json& value);

}  // namespace coxswain::job
