#include "trainer/communicators.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "trainer/contract/error.h"
#include "trainer/world_claim.h"

namespace coxswain {

using contract::lookup_environment;

namespace {

std::unique_ptr<comm::Communicator> join(const contract::TrainerConfig& config,
                                         std::function<void(const comm::PeerLost&)> on_lost) {
  if (!under_mpirun()) {
    if (config.communication.backend == CommunicationBackend::kMpi)
      throw Error(ExitCode::kBadInput,
                  "[comm] communication.backend is mpi, but mpirun did not start this process: "
                  "start it with mpirun, or write auto");
    return comm::make_solo_communicator();
  }
  comm::MpiOptions options = mpi_options(config);
  options.on_lost = std::move(on_lost);
  options.on_late = [](double seconds, int rank) {
    fmt::print(stderr, "coxswain-trainer: rank {} is late: {:.1f} s so far\n", rank, seconds);
  };
  return comm::make_mpi_communicator(options);
}

}  // namespace

comm::MpiOptions mpi_options(const contract::TrainerConfig& config) {
  comm::MpiOptions options;
  options.step_deadline_seconds = static_cast<double>(config.step_deadline_seconds);
  return options;
}

bool under_mpirun() { return lookup_environment(kOpenMpiSize).has_value(); }

std::unique_ptr<comm::Communicator> make_communicator(
    const contract::TrainerConfig& config, std::function<void(const comm::PeerLost&)> on_lost) {
  auto communicator = join(config, std::move(on_lost));
  require_whole_world(communicator->size(), lookup_environment);
  return communicator;
}

int ranks_on_this_machine(const std::optional<contract::WorkerEnv>& env) {
  const auto local = lookup_environment("OMPI_COMM_WORLD_LOCAL_SIZE");
  if (local.has_value()) return std::max(1, std::atoi(local->c_str()));
  return env.has_value() ? env->slots : 1;
}

}  // namespace coxswain
