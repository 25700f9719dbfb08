#include "trainer/graph/passes.h"

namespace coxswain::graph {

Graph assign_types(Graph graph, Precision precision) {
  const int logits = graph.loss().inputs.front();
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    const bool wide = node.op == Op::kInput || node.op == Op::kSoftmaxCrossEntropy ||
                      static_cast<int>(i) == logits || precision == Precision::kFp32;
    node.type = wide ? DataType::kFloat32 : DataType::kBFloat16;
  }
  return graph;
}

Program compile(const Graph& graph, std::int64_t batch_size, Precision precision, Mode mode) {
  return differentiate(fuse(assign_types(infer_shapes(graph, batch_size), precision)), mode);
}

}  // namespace coxswain::graph
