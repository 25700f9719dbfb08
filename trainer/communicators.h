#pragma once

#include <memory>
#include <optional>

#include "trainer/comm/communicator.h"
#include "trainer/contract/worker/worker_env.h"

namespace coxswain {

// True in a process that mpirun started.
bool under_mpirun();

// Over MPI when mpirun started this process, else of one rank.
std::unique_ptr<comm::Communicator> make_communicator();

// How many ranks share this machine's cores.
int ranks_on_this_machine(const std::optional<contract::WorkerEnv>& env);

}  // namespace coxswain
