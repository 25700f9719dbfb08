#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "trainer/ps/server.h"

namespace coxswain::ps {

// Value. How long a server waits, and whom it tells what.
struct ServeOptions {
  int startup_seconds = 600;  // until training begins, and for somebody to come back
  // Now and then while workers are missing: which.
  std::function<void(const std::string& missing)> on_waiting = nullptr;
  // Often.
  std::function<void(const Server& server)> on_turn = nullptr;
};

// Serves until `stop`. Throws Error(69) when training has not begun in time, 71 when all workers
// are gone for as long, both naming who is missing; 65 when this server does not belong to the job.
void serve(const net::NetworkOptions& network, Server& server, const ServeOptions& options,
           const std::atomic<bool>& stop);

}  // namespace coxswain::ps
