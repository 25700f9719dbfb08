#include <fmt/format.h>

#include <limits>
#include <set>

#include "trainer/contract/error.h"
#include "trainer/graph/passes.h"

namespace coxswain::graph {

namespace {

[[noreturn]] void refuse(const Node& node, const std::string& what) {
  throw Error(ExitCode::kBadInput, fmt::format("[model] layer {}: {}", node.name, what));
}

// Rows or columns of a window's output: floor((size + 2 pad - kernel) / stride) + 1, 0 when it does
// not fit.
std::int64_t window_output(const Node& node, std::int64_t size) {
  const std::int64_t room = size + 2 * std::int64_t{node.pad} - node.kernel;
  return room < 0 ? 0 : room / node.stride + 1;
}

Shape window_shape(const Node& node, const Shape& in, std::int64_t channels) {
  if (node.kernel < 1 || node.stride < 1 || node.pad < 0 || node.pad >= node.kernel) {
    refuse(
        node,
        fmt::format("window of kernel {}, stride {}, pad {}: kernel and stride must be at least 1, "
                    "pad below the kernel",
                    node.kernel, node.stride, node.pad));
  }
  const Shape out{in.n, channels, window_output(node, in.h), window_output(node, in.w)};
  if (out.h < 1 || out.w < 1) {
    refuse(node,
           fmt::format(
               "a {0}x{0} window with pad {1} does not fit its input {2}: the output would be {3}",
               node.kernel, node.pad, tensor::to_text(in), tensor::to_text(out)));
  }
  return out;
}

Shape add_shape(const Graph& graph, const Node& node) {
  const Node& a = graph.nodes[static_cast<std::size_t>(node.inputs[0])];
  const Node& b = graph.nodes[static_cast<std::size_t>(node.inputs[1])];
  if (a.shape != b.shape) {
    refuse(node, fmt::format("its inputs differ: {} is {}, {} is {}", a.name,
                             tensor::to_text(a.shape), b.name, tensor::to_text(b.shape)));
  }
  return a.shape;
}

Shape loss_shape(const Node& node, const Shape& in) {
  if (in.h != 1 || in.w != 1) {
    refuse(node, fmt::format("its input must be one value a class, {}x{}x1x1, but is {}", in.n,
                             in.c, tensor::to_text(in)));
  }
  if (node.label_smoothing < 0 || node.label_smoothing >= 1) {
    refuse(node, fmt::format("label smoothing {} is not in [0, 1)", node.label_smoothing));
  }
  return {1, 1, 1, 1};
}

void require_channels(const Node& node, const Shape& in) {
  if (node.channels >= 1) return;
  refuse(node, fmt::format("needs at least 1 output for its input {}, but has {}",
                           tensor::to_text(in), node.channels));
}

Shape output_shape(const Graph& graph, const Node& node) {
  const Shape& in = graph.nodes[static_cast<std::size_t>(node.inputs[0])].shape;
  switch (node.op) {
    case Op::kConv2d:
      require_channels(node, in);
      return window_shape(node, in, node.channels);
    case Op::kDense:
      require_channels(node, in);
      return {in.n, node.channels, 1, 1};
    case Op::kMaxPool:
    case Op::kAvgPool:
      return window_shape(node, in, in.c);
    case Op::kGlobalAvgPool:
      return {in.n, in.c, 1, 1};
    case Op::kFlatten:
      return {in.n, in.per_sample(), 1, 1};
    case Op::kAdd:
      return add_shape(graph, node);
    case Op::kSoftmaxCrossEntropy:
      return loss_shape(node, in);
    case Op::kDropout:
      if (node.rate < 0 || node.rate >= 1)
        refuse(node, fmt::format("rate {} is not in [0, 1)", node.rate));
      return in;
    default:
      return in;
  }
}

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

void check_sizes(const Graph& graph, const Node& node) {
  check_size(node, "activations", node.shape);
  if (node.op != Op::kDense && node.op != Op::kConv2d) return;
  const Shape& in = graph.nodes[static_cast<std::size_t>(node.inputs[0])].shape;
  check_size(node, "weights",
             node.op == Op::kDense ? Shape{node.channels, in.c, in.h, in.w}
                                   : Shape{node.channels, in.c, node.kernel, node.kernel});
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

}  // namespace

Graph infer_shapes(Graph graph, std::int64_t batch_size) {
  Node& input = graph.nodes.front();
  if (batch_size < 1) refuse(input, fmt::format("batch size {} is not positive", batch_size));
  if (input.shape.c < 1 || input.shape.h < 1 || input.shape.w < 1) {
    refuse(input, fmt::format("shape {} is empty", tensor::to_text(input.shape)));
  }
  check_structure(graph);
  input.shape.n = batch_size;
  check_sizes(graph, input);
  for (std::size_t i = 1; i < graph.nodes.size(); ++i) {
    graph.nodes[i].shape = output_shape(graph, graph.nodes[i]);
    check_sizes(graph, graph.nodes[i]);
  }
  return graph;
}

}  // namespace coxswain::graph
