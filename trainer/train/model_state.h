#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "trainer/backend/backend.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/comm/communicator.h"
#include "trainer/graph/program.h"

namespace coxswain::train {

// First values of every tensor, equal on all ranks without a message.
void initialise(const graph::Program& training, std::uint64_t seed, backend::Backend& backend,
                tensor::ParameterBuffer& parameters);

// Copies the training buffers (a memcpy) and returns what turns the copy into a checkpoint, to be
// called on another thread. `backend` must outlive it.
std::function<checkpoint::Contents()> snapshot(const checkpoint::State& state,
                                               backend::Backend& backend,
                                               tensor::ParameterBuffer& parameters,
                                               std::span<const std::string_view> slot_names);

// Writes a checkpoint's tensors into the buffers. Throws Error (65) naming the tensor that is
// missing, too many or of another shape; the buffers are untouched then.
void restore(const checkpoint::Contents& contents, backend::Backend& backend,
             tensor::ParameterBuffer& parameters, std::span<const std::string_view> slot_names);

// Rank 0's weights, running statistics and slots to all ranks, whose layouts may differ.
void broadcast_parameters(comm::Communicator& communicator, backend::Backend& backend,
                          tensor::ParameterBuffer& parameters);

// A hash of all weights in canonical order, to see that ranks agree.
std::uint64_t hash_of_weights(backend::Backend& backend, tensor::ParameterBuffer& parameters);

}  // namespace coxswain::train
