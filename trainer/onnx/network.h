#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/graph/graph.h"
#include "trainer/onnx/model.h"

// A model of ONNX as a graph of this program, and the reverse. PURE.
namespace coxswain::onnx {

// Value. Which of the model's tensors is one of the graph's parameters. Those named are the
// model's. What a norm has become that its exporter folded is part of the layer before it, or a
// convolution of 1x1 in as many groups as it has channels.
struct Source {
  std::string parameter;
  const Tensor* tensor = nullptr;
  bool transposed = false;                          // (in, out) in the model
  std::optional<tensor::Shape> channels_last = {};  // its inputs are (H, W, C), of this shape
  bool of_each_channel = false;                     // one number each, as such a convolution's
  const Tensor* factors = nullptr;                  // of each output; null: 1
  const Tensor* added = nullptr;                    // after that, to each; null: 0
};

// Value. Refers to the model.
struct Translation {
  graph::Graph graph;
  std::vector<Source> sources;
};

// The graph for images of `input`, of which only C, H and W matter, with a last layer for `classes`
// outputs; without them as the model says. Throws Error (65) that names the node which is not known
// here, or does not fit.
Translation translate(const Model& model, std::optional<tensor::Shape> input = {},
                      std::optional<std::int64_t> classes = {}, float label_smoothing = 0);

// What a step leaves of the running statistics of the model's BatchNorms (the attribute momentum):
// running = momentum running + (1 - momentum) batch. Nothing: there are none. Throws Error (65)
// that names a node whose momentum is not the others', or not within 0 and 1.
std::optional<float> norm_momentum(const Model& model);

// The values of the weights, under the names of the graph's parameters. Throws Error (65) for those
// that don't fit, or are not there.
std::vector<checkpoint::NamedTensor> weights_of(const Model& model);

// A graph with its weights and running statistics: what training has made of it, for scoring. One
// input "input", (N, C, H, W), as the graph's; one output "logits", (N, classes). Throws Error (65)
// for weights that are not there.
Model to_model(const graph::Graph& graph, const std::vector<checkpoint::NamedTensor>& weights);

// A model's text in checkpoints, without the values of its weights; and back. Throws Error (65) for
// what is none.
std::string to_text(const Model& model);
bool is_model_text(const std::string& text);
Model from_text(const std::string& text, const std::string& where);

}  // namespace coxswain::onnx
