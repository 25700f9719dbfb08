#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "trainer/comm/mpi/mpi_communicator.h"
#include "trainer/contract/config/trainer_config.h"
#include "trainer/contract/worker/worker_env.h"

namespace coxswain {

// True in a process that mpirun started.
bool under_mpirun();

// What the configuration says of the ranks' exchange.
comm::MpiOptions mpi_options(const contract::TrainerConfig& config);

// Over MPI when mpirun started this process, else of one rank; throws Error(65) when there should
// be more, or `communication.backend` is mpi. `on_lost` is called on the communication thread as
// soon as a peer is lost, even while this rank computes; it leaves the process.
std::unique_ptr<comm::Communicator> make_communicator(
    const contract::TrainerConfig& config, std::function<void(const comm::PeerLost&)> on_lost);

// How many ranks share this machine's cores.
int ranks_on_this_machine(const std::optional<contract::WorkerEnv>& env);

}  // namespace coxswain
