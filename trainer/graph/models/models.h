#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trainer/graph/graph.h"

namespace coxswain::graph {

// Value. A named model as the tables of the systems it comes from define it.
struct ModelInfo {
  std::string name;  // "singa-cnn"
  Shape input;       // per sample (1, C, H, W)
  std::int64_t classes = 10;
  std::string source;  // where its layers and initialisers are taken from
};

const std::vector<ModelInfo>& models();

// The model's default input and classes; throws Error (65) with the nearest known name for an
// unknown one.
const ModelInfo& model_info(std::string_view name);

// Builds the model for inputs of `input` (which may differ from the default, as CIFAR ResNets on
// 28x28 and 32x32) and `classes`.
Graph build_model(std::string_view name, Shape input, std::int64_t classes, float label_smoothing);

}  // namespace coxswain::graph
