#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "trainer/backend/backend.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/comm/communicator.h"
#include "trainer/graph/program.h"
#include "trainer/train/train_options.h"

namespace coxswain::train {

// Names of the slots that the optimizer keeps under these options.
std::vector<std::string_view> slot_names(const TrainOptions& options);

// First values of every tensor, equal on all ranks without a message.
void initialise(const graph::Program& training, std::uint64_t seed, backend::Backend& backend,
                const backend::Parameters& parameters);

// Takes a snapshot of the parameters and returns what turns it into a checkpoint, to be called once
// on another thread. `backend` must outlive it.
std::function<checkpoint::Contents()> snapshot(backend::Backend& backend,
                                               const backend::Parameters& parameters,
                                               std::vector<std::string_view> slot_names);

// Writes a checkpoint's tensors and its count of updates into the parameters. Throws Error (65)
// naming the tensor that is missing, too many or of another shape; nothing is written then.
void restore(const checkpoint::Contents& contents, backend::Backend& backend,
             const backend::Parameters& parameters, std::span<const std::string_view> slot_names);

// Rank 0's weights, running statistics, slots and count of updates to all ranks, whose layouts may
// differ.
void broadcast_parameters(comm::Communicator& communicator, backend::Backend& backend,
                          const backend::Parameters& parameters);

// A hash of all weights in canonical order, to see that ranks agree.
std::uint64_t hash_of_weights(backend::Backend& backend, const backend::Parameters& parameters);

}  // namespace coxswain::train
