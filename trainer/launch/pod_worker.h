#pragma once

#include "trainer/contract/worker/termination_message.h"
#include "trainer/contract/worker/worker_env.h"
#include "trainer/launch/worker.h"

namespace coxswain::launch {

// Launcher MPI, the first process of a pod: serves SSH to its gang; worker 0 waits for all hosts of
// the hostfile, then launches. A worker >= 1 goes on serving when its ranks are done, until
// SIGTERM. How this worker ended, from its own ranks. Throws Error(69) naming the hosts that did
// not answer within three quarters of the time that the job has to start, Error(65) when this user
// has no name, Error when sshd can't be started or ends.
contract::TerminationMessage run_pod_worker(const contract::WorkerEnv& env,
                                            const WorkerOptions& options);

}  // namespace coxswain::launch
