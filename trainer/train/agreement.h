#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/backend/backend.h"
#include "trainer/comm/communicator.h"

namespace coxswain::train {

// What ranks compare with each other before the first step. Every rank makes the same calls.

// The ranks whose value is not rank 0's.
std::vector<int> ranks_that_differ(comm::Communicator& communicator, std::uint64_t value);

// Rank 0's text on every rank.
std::string broadcast_text(comm::Communicator& communicator, const std::string& text);

// The device's own layout when it is the same on all ranks, else the canonical one, which costs
// reorders: a note says so.
tensor::ParameterLayout agreed_layout(comm::Communicator& communicator, backend::Backend& backend,
                                      const graph::Program& training,
                                      std::vector<std::string>& notes);

// Notes ranks whose numbers come from another library, instruction set or thread count; throws
// Error (65) naming them when `required`, as anyWorldSize needs.
void compare_fingerprints(comm::Communicator& communicator, const std::string& fingerprint,
                          bool required, std::vector<std::string>& notes);

// Throws Error (70) naming the ranks whose weights are not rank 0's.
void require_equal_weights(comm::Communicator& communicator, backend::Backend& backend,
                           const backend::Parameters& parameters);

}  // namespace coxswain::train
