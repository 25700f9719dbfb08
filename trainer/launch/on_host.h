#pragma once

#include "trainer/contract/worker/termination_message.h"
#include "trainer/contract/worker/worker_env.h"
#include "trainer/launch/worker.h"

namespace coxswain::launch {

// Launcher Env, with the ranks on another machine: `hosted` runs them there, over the user's own
// ssh; this process is the worker to whoever started it. Its variables are those that
// save_environment() left for it. What the ranks print comes out here, and into their
// output_file(). The ranks don't outlive the connection.
//
// Returns how the worker ended; with kHostLost and the reason when the host answers no more.
contract::TerminationMessage run_on_host(const contract::WorkerEnv& env,
                                         const WorkerOptions& options);

// The other end: `coxswain-trainer hosted`. Runs the worker that it is told of by frames on its
// standard input, and leaves when that closes or falls silent. What it keeps while it runs is in a
// directory of its own under the temporary one. Returns the worker's exit code.
int run_hosted();

}  // namespace coxswain::launch
