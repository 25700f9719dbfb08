#pragma once

#include <map>
#include <string>

#include "operator/job/worker_spec.h"

namespace coxswain::job {

// Tells the worker `id` where its peers are in the words of other people's programs: those of
// `rendezvous`, or all that fit.
void add_frameworks(const TrainingJob& job, const WorkerId& id, const Paths& paths,
                    std::map<std::string, std::string>& environment);

}  // namespace coxswain::job
