#include "trainer/communicators.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "trainer/comm/mpi/mpi_communicator.h"

namespace coxswain {

using contract::lookup_environment;

bool under_mpirun() { return lookup_environment("OMPI_COMM_WORLD_SIZE").has_value(); }

std::unique_ptr<comm::Communicator> make_communicator(
    double step_deadline_seconds, std::function<void(const comm::PeerLost&)> on_lost) {
  if (!under_mpirun()) return comm::make_solo_communicator();
  comm::MpiOptions options;
  options.step_deadline_seconds = step_deadline_seconds;
  options.on_lost = std::move(on_lost);
  options.on_late = [](double seconds, int rank) {
    fmt::print(stderr, "coxswain-trainer: rank {} is late: {:.1f} s so far\n", rank, seconds);
  };
  return comm::make_mpi_communicator(options);
}

int ranks_on_this_machine(const std::optional<contract::WorkerEnv>& env) {
  const auto local = lookup_environment("OMPI_COMM_WORLD_LOCAL_SIZE");
  if (local.has_value()) return std::max(1, std::atoi(local->c_str()));
  return env.has_value() ? env->slots : 1;
}

}  // namespace coxswain
