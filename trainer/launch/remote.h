#pragma once

namespace coxswain::launch {

// What sshd starts in a pod for whoever has come over SSH, whatever was asked for
// (SSH_ORIGINAL_COMMAND). Executes the daemon of mpirun (orted, prted) in the environment of the
// pod's first process, and nothing else; "ready" just ends with 0. Throws Error(69) for another
// attempt's peer, Error(2) for another command.
int run_remote();

}  // namespace coxswain::launch
