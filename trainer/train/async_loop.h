#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "trainer/train/parameter_server_strategy.h"
#include "trainer/train/training_loop.h"

namespace coxswain::train {

// How a worker of asynchronous training takes part.
struct AsyncAccess {
  ServerAccess servers;
  int workers = 1;                // of the job
  std::chrono::seconds patience;  // until training has begun
  // Now and then while the bound on staleness holds this worker: whom it waits for.
  std::function<void(const std::string& worker)> on_waiting = nullptr;
};

// As train(), for one worker that computes steps of its own, on weights that others change
// meanwhile. The collaborators' communicator is of this worker alone, and their strategy is not
// used. Worker 0 evaluates and saves, at cuts at which nobody trains; when it returns, it has
// saved. Whoever comes later takes the weights, and the place in the data, from the servers.
Result train_async(const TrainOptions& options, Collaborators collaborators,
                   const AsyncAccess& access);

}  // namespace coxswain::train
