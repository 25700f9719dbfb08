#pragma once

#include <cstdint>
#include <span>

#include "trainer/graph/graph.h"

namespace coxswain::graph {

// Writes a parameter's first values in canonical order. They depend on the seed and the tensor's
// name alone (Philox counter (0, 0, hash of the name, index / 4)), so all ranks start equal without
// a broadcast.
void initialise(const Parameter& parameter, std::uint64_t seed, std::span<float> canonical);

}  // namespace coxswain::graph
