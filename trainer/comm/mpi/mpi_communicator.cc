#include "trainer/comm/mpi/mpi_communicator.h"

#include <chrono>

#include "trainer/comm/wired_communicator.h"

namespace coxswain::comm {

namespace {

std::chrono::nanoseconds seconds(double value) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(value));
}

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(const MpiOptions& options) {
  return make_wired_communicator(open_mpi_wire,
                                 {.peer_deadline = seconds(options.peer_deadline_seconds),
                                  .startup_deadline = seconds(options.startup_deadline_seconds),
                                  .step_deadline = seconds(options.step_deadline_seconds),
                                  .on_late = options.on_late,
                                  .on_lost = options.on_lost,
                                  .on_given_up = options.on_given_up});
}

}  // namespace coxswain::comm
