#pragma once

#include <string>
#include <vector>

#include "operator/job/training_job.h"

namespace coxswain::cluster {

// Value. A process of a job's first attempt that dies after so many steps, for people who want to
// see recovery: a worker's first rank, or a server.
struct KillPoint {
  job::Role role = job::Role::kWorker;
  int index = 0;
  int step = 0;
};

// Of "worker-1@137". Throws Error(2).
std::vector<KillPoint> parse_kill_points(const std::vector<std::string>& given);

// Throws Error(65) naming the first that this job can't have.
void check_kill_points(const std::vector<KillPoint>& points, const job::Spec& spec);

// COXSWAIN_FAIL_POINT of this worker's process; empty: none.
std::string fail_point(const std::vector<KillPoint>& points, const job::Spec& spec,
                       const job::WorkerId& id);

}  // namespace coxswain::cluster
