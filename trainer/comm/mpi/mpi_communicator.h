#pragma once

#include <functional>
#include <memory>

#include "trainer/comm/communicator.h"
#include "trainer/comm/wire.h"

namespace coxswain::comm {

struct MpiOptions {
  double peer_deadline_seconds = 10;      // of silence, until a peer is lost
  double startup_deadline_seconds = 120;  // for MPI to connect all ranks
  double step_deadline_seconds = 300;     // of a peer that lives but does not come to a sum

  // See WiredOptions: called on the communication thread, the others at once when a peer is lost.
  std::function<void(double late_seconds, int rank)> on_late = nullptr;
  std::function<void(const PeerLost&)> on_lost = nullptr;
  std::function<void(const Error&)> on_given_up = nullptr;
};

// The ranks that mpirun started. At most one in the life of a process, since MPI starts once. Every
// MPI call is made by the communicator's own thread.
//
// After PeerLost, or when finish() was not called, MPI stays open: leave the process with _exit.
std::unique_ptr<Communicator> make_mpi_communicator(const MpiOptions& options);

// Starts MPI on the calling thread, to be run with its parameter mpi_yield_when_idle; close() ends
// it. For make_wired_communicator.
std::unique_ptr<Wire> open_mpi_wire();

}  // namespace coxswain::comm
