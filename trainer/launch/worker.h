#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "trainer/contract/worker/worker_env.h"

namespace coxswain::launch {

enum class Launcher {
  kMpi,  // worker 0 runs mpirun, which starts every rank of the world
  kEnv,  // each worker starts its own ranks
};

struct WorkerOptions {
  Launcher launcher = Launcher::kMpi;
  std::vector<std::string> command;  // of each rank
  std::filesystem::path trainer;     // whose `rank` supervises it; empty: this program
  std::string host;                  // as ssh knows it: the ranks run there; empty: on this machine
  std::string host_directory;        // where this program lies on that host
  std::string wrote_on;              // the host on which an earlier attempt wrote checkpoints
};

// Starts the ranks, supervises them and reports how they ended: the body of a worker.
//
// SIGTERM asks the worker's own ranks to save and stop (SIGUSR1); no grace period is counted here,
// whoever sent it kills when it is over. Everything below dies with this process. At the end the
// termination message is in termination_file(env). Returns 0, 75 (saved and left), or the code of
// the first cause among its own ranks. Throws Error when nothing could be started.
int run_worker(const contract::WorkerEnv& env, const WorkerOptions& options);

}  // namespace coxswain::launch
