#include "trainer/graph/passes.h"

namespace coxswain::graph {

namespace {

bool takes_activation(const Node& node) {
  const bool op = node.op == Op::kConv2d || node.op == Op::kDense || node.op == Op::kBatchNorm ||
                  node.op == Op::kAdd;
  return op && node.activation == Activation::kNone;
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
    if (node.op == Op::kRelu || node.op == Op::kTanh) {
      Node& before = result.nodes[static_cast<std::size_t>(node.inputs[0])];
      if (takes_activation(before) && readers[static_cast<std::size_t>(source)] == 1) {
        before.activation = node.op == Op::kRelu ? Activation::kRelu : Activation::kTanh;
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

}  // namespace coxswain::graph
