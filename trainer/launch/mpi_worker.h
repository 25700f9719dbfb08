#pragma once

#include <filesystem>

#include "trainer/contract/worker/child_process.h"
#include "trainer/contract/worker/termination_message.h"
#include "trainer/contract/worker/worker_env.h"
#include "trainer/launch/worker.h"

namespace coxswain::launch {

// Launcher MPI, worker 0 of a local run: mpirun starts all ranks of the world on this machine.
// How this worker ended, from its own ranks and mpirun. Throws Error when mpirun can't be started.
contract::TerminationMessage run_mpi_worker(const contract::WorkerEnv& env,
                                            const WorkerOptions& options);

// The same from a pod, over SSH to all hosts of the hostfile, which answer.
contract::TerminationMessage launch_from_pod(const contract::WorkerEnv& env,
                                             const WorkerOptions& options,
                                             const std::filesystem::path& ssh_config,
                                             contract::SignalQueue& signals);

}  // namespace coxswain::launch
