#include <fmt/format.h>

#include <algorithm>

#include "trainer/commands.h"
#include "trainer/contract/error.h"
#include "trainer/graph/models/models.h"
#include "trainer/graph/operations.h"
#include "trainer/graph/passes.h"
#include "trainer/network_file.h"
#include "trainer/onnx/file.h"
#include "trainer/onnx/network.h"

namespace coxswain {

namespace {

std::int64_t trainable_of(const std::vector<graph::Parameter>& parameters) {
  std::int64_t count = 0;
  for (const graph::Parameter& parameter : parameters) {
    if (!tensor::is_trainable(parameter.kind)) continue;
    std::int64_t elements = 1;
    for (const std::int64_t dim : parameter.dims) elements *= dim;
    count += elements;
  }
  return count;
}

// Shapes, parameters and cost of each layer, of one image.
int print_graph(const graph::Graph& unshaped) {
  const graph::Graph graph = graph::infer_shapes(unshaped, 1);
  const std::size_t logits = graph.nodes.size() - 1;
  fmt::print("{:<24} {:<14} {:>14} {:>12} {:>10}\n", "layer", "operation", "output", "parameters",
             "MMAC");
  for (std::size_t i = 0; i < logits; ++i) {
    const graph::Node& node = graph.nodes[i];
    const int index = static_cast<int>(i);
    fmt::print("{:<24} {:<14} {:>14} {:>12} {:>10.3f}\n", node.name, graph::operation(node.op).name,
               fmt::format("{}x{}x{}", node.shape.c, node.shape.h, node.shape.w),
               trainable_of(graph::parameters(graph, index)),
               static_cast<double>(graph::multiply_accumulates(graph, index)) / 1e6);
  }
  fmt::print("{:<24} {:<14} {:>14} {:>12} {:>10.3f}\n", "all", "", "",
             trainable_of(graph::parameters(graph)),
             static_cast<double>(graph::multiply_accumulates(graph)) / 1e6);
  return 0;
}

// Of a file of layers, or of ONNX, whose weights have to fit.
graph::Graph graph_of(const std::filesystem::path& file) {
  if (onnx::is_onnx(file)) {
    const onnx::Model model = onnx::read_model(file, onnx::Values::kWithWeights);
    onnx::weights_of(model);
    return onnx::translate(model).graph;
  }
  const NetworkFile network = read_network(file);
  if (network.input.c == 0)
    throw Error(ExitCode::kBadInput,
                fmt::format("[model] {}: input: required here: input: [1, 28, 28]",
                            file.filename().string()));
  return graph::build_layers(network.layers, network.input, network.classes, 0);
}

}  // namespace

int run_models(const CommandLine& line) {
  if (!line.network.empty()) return print_graph(graph_of(line.network));
  fmt::print("{:<16} {:>11} {:>12} {:>8} {:>10}  {}\n", "model", "input", "parameters", "tensors",
             "MMAC", "from");
  for (const graph::ModelInfo& model : graph::models()) {
    const graph::Graph graph = graph::infer_shapes(model.build(model.input, model.classes, 0), 1);
    const std::vector<graph::Parameter> parameters = graph::parameters(graph);
    const auto tensors =
        std::ranges::count_if(parameters, tensor::is_trainable, &graph::Parameter::kind);
    fmt::print("{:<16} {:>11} {:>12} {:>8} {:>10.2f}  {}\n", word(model.model),
               fmt::format("{}x{}x{}", model.input.c, model.input.h, model.input.w),
               trainable_of(parameters), tensors,
               static_cast<double>(graph::multiply_accumulates(graph)) / 1e6, model.source);
  }
  return 0;
}

}  // namespace coxswain
