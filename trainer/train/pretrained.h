#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "trainer/checkpoint/checkpoint.h"

namespace coxswain::train {

// Puts weights of elsewhere, and averages that begin as they do, in place of a run's first ones.
// `head`: the layer that may begin anew. `notes` gets what became of them. Throws Error as
// checkpoint::read_weights and place_weights, and onnx::weights_of for a file of its kind.
void begin_with(const std::filesystem::path& pretrained, const std::string& head,
                checkpoint::Contents& contents, std::vector<std::string>& notes);

}  // namespace coxswain::train
