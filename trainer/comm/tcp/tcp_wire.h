#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trainer/comm/wire.h"
#include "trainer/net/network.h"

namespace coxswain::comm {

struct TcpOptions {
  // Who this rank is among how many; all ranks say the same but for their rank.
  net::Hello hello;
  std::vector<net::Address> addresses;  // of every rank
  std::string secret;                   // 32 bytes that they share
  bool encrypt = true;
  int descriptor = -1;  // of a socket that listens already; else the own address' port
  std::chrono::nanoseconds startup_deadline = std::chrono::seconds(120);  // until all have joined
  // While ranks are missing, now and then: which.
  std::function<void(const std::string& missing)> on_waiting = nullptr;
};

// One connection between each two ranks, see net::Network; the higher rank calls the lower. Throws
// Error(69) naming who is missing when the deadline is over; what a rank that refuses this one has
// said to end with, 65 or 71.
std::unique_ptr<Wire> open_tcp_wire(const TcpOptions& options);

}  // namespace coxswain::comm
