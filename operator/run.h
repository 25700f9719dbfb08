#pragma once

#include <filesystem>
#include <vector>

#include "operator/cluster/host_pool.h"
#include "operator/cluster/kill_point.h"
#include "operator/cluster/local_volumes.h"
#include "operator/job/training_job.h"

namespace coxswain {

struct RunOptions {
  cluster::VolumeDirectories volumes;  // given by hand
  std::vector<cluster::KillPoint> kill;
  bool as_json = false;
  std::vector<cluster::HostSlots> hosts;  // of the ranks; empty: this machine
  std::filesystem::path run_dir;          // empty: a temporary one, removed at the end
  std::filesystem::path program;          // coxswain itself; coxswain-trainer lies beside it
};

// Runs a valid job as local processes, or on hosts over SSH, until it has ended, and returns the
// exit code of the program. Throws Error(65) for a job that can't run on those hosts, Error(69)
// naming hosts that don't answer.
//
// SIGINT or SIGTERM: the ranks save and stop (75); a second one kills them. Whatever the outcome,
// the last line on standard output is the `finished` event.
int run_job(const job::TrainingJob& job, const RunOptions& options);

}  // namespace coxswain
