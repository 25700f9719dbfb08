#include "trainer/graph/graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "trainer/graph/operations.h"

namespace coxswain::graph {

namespace {

const Node& node_of(const Graph& graph, int index) {
  return graph.nodes[static_cast<std::size_t>(index)];
}

}  // namespace

std::string_view name_of(Activation activation) {
  switch (activation) {
    case Activation::kNone:
      return "none";
    case Activation::kRelu:
      return "relu";
    case Activation::kTanh:
      return "tanh";
  }
  return "";
}

std::string to_text(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes) {
    std::vector<std::string_view> inputs;
    for (const int input : node.inputs) inputs.push_back(node_of(graph, input).name);
    text += fmt::format("{} = {}({}){} : {} {}\n", node.name, operation(node.op).name,
                        fmt::join(inputs, ", "), attributes_text(node), tensor::to_text(node.shape),
                        name_of(node.type));
  }
  return text;
}

DataType narrow_type(const Graph& graph) {
  const auto found = std::ranges::find_if(
      graph.nodes, [](const Node& node) { return node.type != DataType::kFloat32; });
  return found == graph.nodes.end() ? DataType::kFloat32 : found->type;
}

DataType product_type(const Graph& graph, const Node& node) {
  if (node.type != DataType::kFloat32) return node.type;
  for (const int input : node.inputs) {
    const DataType type = node_of(graph, input).type;
    if (type != DataType::kFloat32) return type;
  }
  return DataType::kFloat32;
}

std::vector<int> reader_counts(const Graph& graph) {
  std::vector<int> counts(graph.nodes.size());
  for (const Node& node : graph.nodes) {
    for (const int input : node.inputs) ++counts[static_cast<std::size_t>(input)];
  }
  return counts;
}

std::vector<Parameter> parameters(const Graph& graph, int node) {
  const auto rule = operation(node_of(graph, node).op).parameters;
  return rule == nullptr ? std::vector<Parameter>{} : rule(graph, node);
}

std::vector<Parameter> parameters(const Graph& graph) {
  std::vector<Parameter> result;
  for (int node = 0; node < static_cast<int>(graph.nodes.size()); ++node) {
    std::ranges::move(parameters(graph, node), std::back_inserter(result));
  }
  return result;
}

std::int64_t first_channel(const Graph& graph, const Node& node, int input) {
  std::int64_t channels = 0;
  for (int i = 0; i < input; ++i)
    channels += node_of(graph, node.inputs[static_cast<std::size_t>(i)]).shape.c;
  return channels;
}

std::int64_t multiply_accumulates(const Graph& graph, int node) {
  const Shape& out = node_of(graph, node).shape;
  std::int64_t sum = 0;
  for (const Parameter& parameter : parameters(graph, node)) {
    if (parameter.kind != SegmentKind::kWeight) continue;
    std::int64_t products = out.h * out.w;
    for (const std::int64_t dim : parameter.dims) products *= dim;
    sum += products;
  }
  return sum;
}

std::int64_t multiply_accumulates(const Graph& graph) {
  std::int64_t sum = 0;
  for (int node = 0; node < static_cast<int>(graph.nodes.size()); ++node) {
    sum += multiply_accumulates(graph, node);
  }
  return sum;
}

Builder::Builder(Shape input_per_sample) {
  input_per_sample.n = 1;
  graph_.nodes.push_back({.op = Op::kInput, .name = "input", .shape = input_per_sample});
}

// A node that came without a name gets its operation's and a number: "maxpool2".
int Builder::append(Node node) {
  if (node.name.empty()) {
    const auto same = std::ranges::count(graph_.nodes, node.op, &Node::op);
    node.name = fmt::format("{}{}", operation(node.op).name, same + 1);
  }
  graph_.nodes.push_back(std::move(node));
  return static_cast<int>(graph_.nodes.size()) - 1;
}

}  // namespace coxswain::graph
