#include "trainer/graph/head.h"

namespace coxswain::graph {

std::optional<int> head_of(const Graph& graph) {
  int index = graph.loss().inputs.front();
  for (;;) {
    const Node& node = graph.nodes[static_cast<std::size_t>(index)];
    if (node.op == Op::kDense || node.op == Op::kConv2d) return index;
    if (node.inputs.size() != 1 || node.op == Op::kBatchNorm) return std::nullopt;
    index = node.inputs.front();
  }
}

}  // namespace coxswain::graph
