#include "trainer/graph/graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace coxswain::graph {

std::string_view name_of(Op op) {
  switch (op) {
    case Op::kInput:
      return "input";
    case Op::kConv2d:
      return "conv2d";
    case Op::kDense:
      return "dense";
    case Op::kBatchNorm:
      return "batchnorm";
    case Op::kRelu:
      return "relu";
    case Op::kTanh:
      return "tanh";
    case Op::kGelu:
      return "gelu";
    case Op::kAdd:
      return "add";
    case Op::kMaxPool:
      return "maxpool";
    case Op::kAvgPool:
      return "avgpool";
    case Op::kGlobalAvgPool:
      return "globalavgpool";
    case Op::kFlatten:
      return "flatten";
    case Op::kDropout:
      return "dropout";
    case Op::kSoftmaxCrossEntropy:
      return "loss";
  }
  return "";
}

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

namespace {

std::string attributes_text(const Node& node) {
  std::string text;
  if (node.channels != 0) text += fmt::format(" channels={}", node.channels);
  if (node.kernel != 0) {
    text += fmt::format(" kernel={} stride={} pad={}", node.kernel, node.stride, node.pad);
  }
  if (node.bias) text += " bias";
  if (node.op == Op::kBatchNorm) text += fmt::format(" epsilon={}", node.epsilon);
  if (node.fixed_gamma) text += " fixed-gamma";
  if (node.op == Op::kDropout) text += fmt::format(" rate={}", node.rate);
  if (node.label_smoothing != 0) text += fmt::format(" smoothing={}", node.label_smoothing);
  if (node.activation != Activation::kNone) text += fmt::format(" {}", name_of(node.activation));
  return text;
}

}  // namespace

std::string to_text(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes) {
    std::vector<std::string_view> inputs;
    for (const int input : node.inputs)
      inputs.push_back(graph.nodes[static_cast<std::size_t>(input)].name);
    text += fmt::format("{} = {}({}){} : {} {}\n", node.name, name_of(node.op),
                        fmt::join(inputs, ", "), attributes_text(node), tensor::to_text(node.shape),
                        node.type == DataType::kFloat32 ? "f32" : "bf16");
  }
  return text;
}

std::vector<int> reader_counts(const Graph& graph) {
  std::vector<int> counts(graph.nodes.size());
  for (const Node& node : graph.nodes) {
    for (const int input : node.inputs) ++counts[static_cast<std::size_t>(input)];
  }
  return counts;
}

std::int64_t multiply_accumulates(const Graph& graph) {
  std::int64_t sum = 0;
  for (const Node& node : graph.nodes) {
    if (node.op != Op::kConv2d && node.op != Op::kDense) continue;
    const Shape& in = graph.nodes[static_cast<std::size_t>(node.inputs[0])].shape;
    const std::int64_t per_output =
        node.op == Op::kDense ? in.per_sample() : in.c * node.kernel * node.kernel;
    sum += node.shape.per_sample() * per_output;
  }
  return sum;
}

}  // namespace coxswain::graph
