#pragma once

#include <string>
#include <vector>

#include "trainer/graph/graph.h"
#include "trainer/options/options.h"

namespace coxswain::graph {

// Value. A model as the tables of the systems it comes from define it.
struct ModelInfo {
  Model model = Model::kMlp;
  Shape input;  // per sample (1, C, H, W)
  std::int64_t classes = 10;
  std::string source;  // where its layers and initialisers are taken from
  Graph (*build)(Shape input, std::int64_t classes, float label_smoothing);
};

// Every model, the small ones first.
const std::vector<ModelInfo>& models();

// The model's default input and classes.
const ModelInfo& model_info(Model model);

// Builds the model for inputs of `input` (which may differ from the default, as CIFAR ResNets on
// 28x28 and 32x32) and `classes`.
Graph build_model(Model model, Shape input, std::int64_t classes, float label_smoothing);

}  // namespace coxswain::graph
