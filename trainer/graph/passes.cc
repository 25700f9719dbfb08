#include "trainer/graph/passes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <ranges>
#include <set>

#include "trainer/contract/error.h"
#include "trainer/contract/printable.h"
#include "trainer/graph/operations.h"

namespace coxswain::graph {

namespace {

// oneDNN counts in 32 bits in places, and stops the process beyond.
void check_size(const Node& node, const char* what, const Shape& shape) {
  constexpr std::int64_t kMostValues = std::numeric_limits<std::int32_t>::max();
  std::int64_t left = kMostValues;
  for (const std::int64_t extent : {shape.n, shape.c, shape.h, shape.w}) left /= extent;
  if (left > 0) return;
  refuse(node, fmt::format("its {} of {} have more than the {} values that fit: lower the batch "
                           "size, or take smaller images",
                           what, tensor::to_text(shape), kMostValues));
}

void check_sizes(const Graph& graph, int index) {
  const Node& node = graph.nodes[static_cast<std::size_t>(index)];
  check_size(node, "activations", node.shape);
  for (const Parameter& parameter : parameters(graph, index)) {
    if (parameter.kind != SegmentKind::kWeight) continue;
    std::vector<std::int64_t> dims = parameter.dims;
    dims.resize(4, 1);
    check_size(node, "weights", {dims[0], dims[1], dims[2], dims[3]});
  }
}

void check_structure(const Graph& graph) {
  const std::vector<int> readers = reader_counts(graph);
  std::set<std::string> names;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (!names.insert(node.name).second) refuse(node, "two layers have this name");
    if (i + 1 < graph.nodes.size() && readers[i] == 0) refuse(node, "no layer reads its output");
  }
}

bool takes_activation(const Node& node) {
  return operation(node.op).fuses != Fuses::kNothing && node.activation == Activation::kNone;
}

// From the first layer on.
std::vector<std::string> some_names(const Program& program) {
  constexpr std::size_t kMost = 5;
  std::vector<std::string> names;
  for (const Parameter& parameter : std::views::reverse(program.parameters))
    if (parameter.is_matrix() && names.size() < kMost) names.push_back(parameter.name);
  return names;
}

DataType type_of(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      break;
    case Precision::kBf16:
      return DataType::kBFloat16;
    case Precision::kFp16:
      return DataType::kFloat16;
  }
  return DataType::kFloat32;
}

// For each node: whether every reader of its output is a Dense.
std::vector<bool> read_by_dense_alone(const Graph& graph) {
  std::vector<bool> result(graph.nodes.size(), true);
  for (const Node& node : graph.nodes) {
    if (node.op == Op::kDense) continue;
    for (const int input : node.inputs) result[static_cast<std::size_t>(input)] = false;
  }
  return result;
}

}  // namespace

Graph infer_shapes(Graph graph, std::int64_t batch_size) {
  Node& input = graph.nodes.front();
  if (batch_size < 1) refuse(input, fmt::format("batch size {} is not positive", batch_size));
  if (input.shape.c < 1 || input.shape.h < 1 || input.shape.w < 1) {
    refuse(input, fmt::format("shape {} is empty", tensor::to_text(input.shape)));
  }
  check_structure(graph);
  input.shape.n = batch_size;
  check_sizes(graph, 0);
  for (int i = 1; i < static_cast<int>(graph.nodes.size()); ++i) {
    Node& node = graph.nodes[static_cast<std::size_t>(i)];
    node.shape = operation(node.op).shape(graph, node);
    check_sizes(graph, i);
  }
  return graph;
}

Graph assign_types(Graph graph, Precision precision) {
  const DataType type = type_of(precision);
  for (Node& node : graph.nodes) {
    const bool wide = &node == &graph.input() || &node == &graph.logits() || &node == &graph.loss();
    node.type = wide ? DataType::kFloat32 : type;
  }
  return graph;
}

Graph fuse(Graph graph) {
  const std::vector<int> readers = reader_counts(graph);
  const std::vector<bool> dense_alone = read_by_dense_alone(graph);
  Graph result;
  std::vector<int> new_index(graph.nodes.size());  // where a node's value is found afterwards
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    const int source = node.inputs.empty() ? -1 : node.inputs[0];
    for (int& input : node.inputs) input = new_index[static_cast<std::size_t>(input)];
    if (node.op == Op::kFlatten && dense_alone[i]) {
      new_index[i] = node.inputs[0];
      continue;
    }
    const Activation activation = operation(node.op).activation;
    if (activation != Activation::kNone) {
      Node& before = result.nodes[static_cast<std::size_t>(node.inputs[0])];
      if (takes_activation(before) && readers[static_cast<std::size_t>(source)] == 1) {
        before.activation = activation;
        before.type = node.type;
        new_index[i] = node.inputs[0];
        continue;
      }
    }
    new_index[i] = static_cast<int>(result.nodes.size());
    result.nodes.push_back(std::move(node));
  }
  return result;
}

Program freeze(Program program, std::span<const std::string> prefixes) {
  for (const std::string& prefix : prefixes) {
    bool found = false;
    for (Parameter& parameter : program.parameters) {
      const bool is_weight =
          tensor::is_trainable(parameter.kind) || parameter.kind == SegmentKind::kFrozen;
      if (!is_weight || !parameter.name.starts_with(prefix)) continue;
      parameter.kind = SegmentKind::kFrozen;
      found = true;
    }
    if (found) continue;
    throw Error(ExitCode::kBadInput,
                fmt::format("[graph] freeze: no tensor of the model begins with \"{}\": they are "
                            "{}, and so on; `export` lists all",
                            printable(prefix, 80), fmt::join(some_names(program), ", ")));
  }
  const bool trains = std::ranges::any_of(program.parameters, [](const Parameter& parameter) {
    return tensor::is_trainable(parameter.kind);
  });
  if (!trains && !prefixes.empty())
    throw Error(ExitCode::kBadInput, "[graph] freeze: nothing is left to train");
  return program;
}

Program compile(const Graph& graph, std::int64_t batch_size, Precision precision, Mode mode) {
  return differentiate(fuse(assign_types(infer_shapes(graph, batch_size), precision)), mode);
}

}  // namespace coxswain::graph
