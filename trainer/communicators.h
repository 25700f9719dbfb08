#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "trainer/comm/mpi/mpi_communicator.h"
#include "trainer/contract/config/trainer_config.h"
#include "trainer/contract/worker/worker_env.h"
#include "trainer/net/network.h"

namespace coxswain {

// True in a process that mpirun started.
bool under_mpirun();

// What the configuration says of the ranks' exchange.
comm::MpiOptions mpi_options(const contract::TrainerConfig& config);

// True in a rank that its worker started beside others: they find each other over TCP.
bool among_tcp_ranks(const std::optional<contract::WorkerEnv>& env);

// True where each worker computes steps of its own, and servers hold the weights. Throws Error(65)
// when there are no servers.
bool trains_apart(const contract::TrainerConfig& config,
                  const std::optional<contract::WorkerEnv>& env);

// How many finished steps such a worker may be ahead of the slowest, if that is bounded.
std::optional<std::int64_t> staleness_bound(const contract::TrainerConfig& config);

// Over MPI when mpirun started this process, over TCP in a job whose ranks it does not start, else
// of one rank, as for a worker that trains apart; throws Error(65) when there should be more, or
// `communication.backend` says otherwise. `on_lost` is called on the communication thread as soon
// as a peer is lost or given up, even while this rank computes; it leaves the process.
std::unique_ptr<comm::Communicator> make_communicator(
    const contract::TrainerConfig& config, const std::optional<contract::WorkerEnv>& env,
    std::function<void(const Error&)> on_lost);

// What a process of a job says of itself to the others, and the key that they share. `rank`: among
// the workers' ranks or the servers. Throws Error(65).
net::NetworkOptions network_options(const contract::TrainerConfig& config,
                                    const contract::WorkerEnv& env, int rank);

// This process's place among the ranks of its job; 0 of one.
int rank_of_this_process();

// The job's parameter servers, in order.
std::vector<net::Address> server_addresses(const contract::WorkerEnv& env);

// Of those, from 0, the place of `rank`.
int place_on_this_machine(const std::optional<contract::WorkerEnv>& env, int rank);

// How many ranks share this machine's cores.
int ranks_on_this_machine(const std::optional<contract::WorkerEnv>& env);

}  // namespace coxswain
