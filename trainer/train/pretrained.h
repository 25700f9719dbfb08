#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/graph/graph.h"

namespace coxswain::train {

// Puts weights of elsewhere, and averages that begin as they do, in place of a run's first ones.
// The last layer of `graph` may begin anew. `notes` gets what became of them. Throws Error as
// checkpoint::read_weights and place_weights, and onnx::weights_of for a file of its kind.
void begin_with(const std::filesystem::path& pretrained, const graph::Graph& graph,
                checkpoint::Contents& contents, std::vector<std::string>& notes);

}  // namespace coxswain::train
