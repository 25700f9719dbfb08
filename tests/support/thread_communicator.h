#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "trainer/comm/communicator.h"
#include "trainer/comm/wire.h"
#include "trainer/comm/wired_communicator.h"

namespace coxswain::test {

struct ThreadNetworkState;

// Resource. A network of ranks inside one process: what real ranks do over MPI, with messages in
// memory. Outlives its communicators.
class ThreadNetwork {
 public:
  // `machines`: of each rank; empty: one for all.
  explicit ThreadNetwork(int size, std::chrono::nanoseconds message_delay = {},
                         std::vector<int> machines = {});
  ~ThreadNetwork();

  // Rank `rank` joins. Its thread exchanges as over MPI.
  std::unique_ptr<comm::Communicator> join(int rank, comm::WiredOptions options = {});
  std::unique_ptr<comm::Wire> open(int rank);

  // What the ranks of a machine have sent to those of another, without heartbeats.
  std::size_t bytes_between(int machine, int other) const;

  // From now on the rank neither hears nor says anything, as if its process were stopped or dead.
  void stop(int rank);

 private:
  std::shared_ptr<ThreadNetworkState> state_;
};

// Runs `body` for each rank on a thread of its own and waits for all. Throws what was
// thrown first. Communicators are finished at the body's end.
void run_ranks(int size, const std::function<void(comm::Communicator&)>& body);

// The same, of ranks that join() brings together.
using Join = std::function<std::unique_ptr<comm::Communicator>(int rank)>;
void run_ranks(int size, const Join& join, const std::function<void(comm::Communicator&)>& body);

}  // namespace coxswain::test
