#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "trainer/comm/communicator.h"
#include "trainer/comm/wire.h"

namespace coxswain::comm {

struct WiredOptions {
  std::chrono::nanoseconds peer_deadline = std::chrono::seconds(10);      // of silence
  std::chrono::nanoseconds startup_deadline = std::chrono::seconds(120);  // until the wire is open
  std::chrono::nanoseconds step_deadline = std::chrono::seconds(300);     // of a peer that lives,
                                                                       // in whatever is waited for

  // Called on the communication thread, which waits for them meanwhile.
  // Once when a peer has not come to a sum or barrier for long: 1 s, or 20 usual intervals of sums.
  std::function<void(double late_seconds, int rank)> on_late = nullptr;
  // At once when a peer is lost, even while the caller computes. May leave the process.
  std::function<void(const PeerLost&)> on_lost = nullptr;
  // The same of a peer that lives, but did not come within the step's deadline.
  std::function<void(const Error&)> on_given_up = nullptr;
};

// A communicator whose own thread opens the wire, uses it and closes it: nobody else touches it.
// Ranks exchange heartbeats; one that is silent for `peer_deadline` is lost. The thread spins while
// data moves, sleeps when nothing happens. Throws Error(kPeersMissing) if the wire is not open in
// time, and what `open` throws.
std::unique_ptr<Communicator> make_wired_communicator(OpenWire open, WiredOptions options);

}  // namespace coxswain::comm
