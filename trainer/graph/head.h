#pragma once

#include <optional>

#include "trainer/graph/graph.h"

namespace coxswain::graph {

// The layer whose outputs are the classes: the last one with weights, if nothing after it mixes or
// scales its outputs. Nothing: there is none.
std::optional<int> head_of(const Graph& graph);

}  // namespace coxswain::graph
