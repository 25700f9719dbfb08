#pragma once

#include "operator/job/training_job.h"

// PURE: Pod Security `restricted`, as far as a template is silent.
namespace coxswain::cluster {

// Completes the security contexts of a PodSpec and of all its containers: as our own user, or as
// whom its image or the platform says.
void restrict_pod(job::Json& pod_spec, bool as_our_user);

}  // namespace coxswain::cluster
