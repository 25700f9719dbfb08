#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "trainer/backend/backend.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/data/dataset.h"
#include "trainer/train/observer.h"
#include "trainer/train/save_gate.h"
#include "trainer/train/strategy.h"
#include "trainer/train/train_options.h"

namespace coxswain::train {

// View. What training works with, made by the caller. References must outlive the call.
struct Collaborators {
  backend::Backend& backend;
  const data::Dataset& training;
  const data::Dataset* test = nullptr;  // none: no evaluation
  std::unique_ptr<comm::Communicator> communicator;
  StrategyFactory strategy;
  Observer& observer;             // told on rank 0 alone
  const std::atomic<bool>& stop;  // set: save and leave at the step that all ranks agree on
  SaveGate& saves;                // closed while a save is under way
  // What others of the job train already, instead of a checkpoint; the strategy gets the weights.
  std::optional<checkpoint::State> goes_on_from = std::nullopt;
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
};

enum class Result { kSucceeded, kSaved };

// Trains until the last epoch or step, or until any rank is asked to stop, from the newest
// checkpoint if there is one. Every rank calls it with the same options. When it returns,
// rank 0 has saved and all ranks have left the communicator. Throws Error with the exit code that
// the process should end with; comm::PeerLost when a peer is gone.
Result train(const TrainOptions& options, Collaborators collaborators);

}  // namespace coxswain::train
