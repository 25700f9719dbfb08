#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "trainer/backend/backend.h"
#include "trainer/comm/communicator.h"

namespace coxswain::comm {

struct NcclOptions {
  // Sums in the plan's order, to the bits of every other communicator; else NCCL's own order.
  bool fixed_order = true;
  std::chrono::nanoseconds startup_deadline = std::chrono::seconds(120);  // of each call to NCCL
  // From an error that NCCL tells of until it counts: time for `host` to say whose it is.
  std::chrono::nanoseconds peer_deadline = std::chrono::seconds(10);
  std::chrono::nanoseconds watch_interval = std::chrono::milliseconds(100);
  // On a thread of its own, when NCCL failed and nobody said why. May leave the process.
  std::function<void(const Error&)> on_broken = nullptr;
};

struct NcclRanks {
  std::unique_ptr<Communicator> communicator;
  // Ends what NCCL runs on this rank's GPU, for who is about to leave the process, as once `host`
  // has lost a peer or given one up: on any thread. What lies on the device is worth nothing then.
  // False when it took more than 5 s.
  std::function<bool()> abort;
};

// Ranks with a GPU each, those of `host`, which carries all that lies on the host and NCCL's id,
// and says who is lost: in each step the ranks call each other over it, while the device sums, and
// wait for the call of the step before. So a rank that does not come is named, by host's deadlines.
//
// Sums of what lies on the device of `backend` (of device cuda, outlives the communicator) are
// enqueued on a stream of their own beside it, inside the step that is recorded, if one is; nothing
// waits on the host. finish() and the destructor make the backend forget what it has recorded.
//
// Throws Error: 65 where the program was built without CUDA, 71 where NCCL can't connect the ranks.
NcclRanks make_nccl_communicator(std::unique_ptr<Communicator> host, backend::Backend& backend,
                                 NcclOptions options);

}  // namespace coxswain::comm
