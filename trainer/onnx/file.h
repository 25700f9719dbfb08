#pragma once

#include <filesystem>

#include "trainer/onnx/model.h"

namespace coxswain::onnx {

bool is_onnx(const std::filesystem::path& file);  // by its name

// A file of at most 2 GiB. kWithWeights: with values that lie in files beside it, at most 8 GiB.
// Throws Error (65) as decode_model, and for data that lies elsewhere; 74 when reading fails.
enum class Values { kOfTheNetwork, kWithWeights };
Model read_model(const std::filesystem::path& file, Values values);

}  // namespace coxswain::onnx
