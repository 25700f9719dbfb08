#include "trainer/graph/operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "trainer/contract/error.h"

namespace coxswain::graph {

namespace {

const Node& input_of(const Graph& graph, const Node& node) {
  return graph.nodes[static_cast<std::size_t>(node.inputs[0])];
}

std::string pad_text(const Node& node) {
  if (node.pad_extra == 0) return fmt::format("{}", node.pad);
  return fmt::format("{}+{}", node.pad, node.pad_after());
}

std::string window_text(const Node& node) {
  return fmt::format(" kernel={} stride={} pad={}", node.kernel, node.stride, pad_text(node));
}

// Rows or columns of a window's output: floor((size + padding - kernel) / stride) + 1, 0 when it
// does not fit.
std::int64_t window_output(const Node& node, std::int64_t size) {
  const std::int64_t room = size + node.pad + node.pad_after() - node.kernel;
  return room < 0 ? 0 : room / node.stride + 1;
}

Shape window_shape(const Node& node, const Shape& in, std::int64_t channels) {
  const int least = std::min(node.pad, node.pad_after());
  const int most = std::max(node.pad, node.pad_after());
  if (node.kernel < 1 || node.stride < 1 || least < 0 || most >= node.kernel) {
    refuse(node, fmt::format("window of{}: kernel and stride must be at least 1, pad below the "
                             "kernel",
                             window_text(node)));
  }
  const Shape out{in.n, channels, window_output(node, in.h), window_output(node, in.w)};
  if (out.h < 1 || out.w < 1) {
    refuse(node,
           fmt::format(
               "a {0}x{0} window with pad {1} does not fit its input {2}: the output would be {3}",
               node.kernel, pad_text(node), tensor::to_text(in), tensor::to_text(out)));
  }
  return out;
}

void require_channels(const Node& node, const Shape& in) {
  if (node.channels >= 1) return;
  refuse(node, fmt::format("needs at least 1 output for its input {}, but has {}",
                           tensor::to_text(in), node.channels));
}

Shape same_shape(const Graph& graph, const Node& node) { return input_of(graph, node).shape; }

Shape conv_shape(const Graph& graph, const Node& node) {
  const Shape& in = input_of(graph, node).shape;
  require_channels(node, in);
  if (node.groups < 1 || in.c % node.groups != 0 || node.channels % node.groups != 0) {
    refuse(node,
           fmt::format("{} groups: neither the {} channels of its input {} nor its {} outputs "
                       "may leave a rest",
                       node.groups, in.c, tensor::to_text(in), node.channels));
  }
  return window_shape(node, in, node.channels);
}

Shape dense_shape(const Graph& graph, const Node& node) {
  const Shape& in = input_of(graph, node).shape;
  require_channels(node, in);
  return {in.n, node.channels, 1, 1};
}

Shape add_shape(const Graph& graph, const Node& node) {
  const Node& a = input_of(graph, node);
  const Node& b = graph.nodes[static_cast<std::size_t>(node.inputs[1])];
  if (a.shape != b.shape) {
    refuse(node, fmt::format("its inputs differ: {} is {}, {} is {}", a.name,
                             tensor::to_text(a.shape), b.name, tensor::to_text(b.shape)));
  }
  return a.shape;
}

Shape multiply_shape(const Graph& graph, const Node& node) {
  const Node& a = input_of(graph, node);
  const Node& b = graph.nodes[static_cast<std::size_t>(node.inputs[1])];
  if (b.shape != a.shape && b.shape != Shape{a.shape.n, a.shape.c, 1, 1}) {
    refuse(node, fmt::format("{} is {}, {} is {}: must be of the same shape, or one number for "
                             "each channel",
                             a.name, tensor::to_text(a.shape), b.name, tensor::to_text(b.shape)));
  }
  return a.shape;
}

// Far beyond what fits, and no product of what is checked later overflows.
constexpr std::int64_t kMostChannels = std::int64_t{1} << 24;

Shape concat_shape(const Graph& graph, const Node& node) {
  const Node& a = input_of(graph, node);
  for (const int input : node.inputs) {
    const Node& b = graph.nodes[static_cast<std::size_t>(input)];
    if (b.shape.h == a.shape.h && b.shape.w == a.shape.w) continue;
    refuse(node, fmt::format("its inputs differ in more than channels: {} is {}, {} is {}", a.name,
                             tensor::to_text(a.shape), b.name, tensor::to_text(b.shape)));
  }
  const std::int64_t channels = first_channel(graph, node, static_cast<int>(node.inputs.size()));
  if (channels > kMostChannels) {
    refuse(node,
           fmt::format("its {} channels are more than the limit of {}", channels, kMostChannels));
  }
  return {a.shape.n, channels, a.shape.h, a.shape.w};
}

Shape clip_shape(const Graph& graph, const Node& node) {
  if (!(node.low < node.high)) {
    refuse(node, fmt::format("clips between {} and {}: the first must be the smaller", node.low,
                             node.high));
  }
  return input_of(graph, node).shape;
}

Shape pool_shape(const Graph& graph, const Node& node) {
  const Shape& in = input_of(graph, node).shape;
  return window_shape(node, in, in.c);
}

Shape global_pool_shape(const Graph& graph, const Node& node) {
  const Shape& in = input_of(graph, node).shape;
  return {in.n, in.c, 1, 1};
}

Shape flatten_shape(const Graph& graph, const Node& node) {
  const Shape& in = input_of(graph, node).shape;
  return {in.n, in.per_sample(), 1, 1};
}

Shape dropout_shape(const Graph& graph, const Node& node) {
  if (node.rate < 0 || node.rate >= 1) {
    refuse(node, fmt::format("rate {} is not in [0, 1)", node.rate));
  }
  return input_of(graph, node).shape;
}

Shape loss_shape(const Graph& graph, const Node& node) {
  const Shape& in = input_of(graph, node).shape;
  if (in.h != 1 || in.w != 1) {
    refuse(node, fmt::format("its input must be one value a class, {}x{}x1x1, but is {}", in.n,
                             in.c, tensor::to_text(in)));
  }
  if (node.label_smoothing < 0 || node.label_smoothing >= 1) {
    refuse(node, fmt::format("label smoothing {} is not in [0, 1)", node.label_smoothing));
  }
  return {1, 1, 1, 1};
}

float root(double value) { return static_cast<float>(std::sqrt(value)); }

Initializer weight_initializer(WeightInit rule, double fan_in, double fan_out, double outputs) {
  switch (rule) {
    case WeightInit::kXavierUniform:
      return {InitKind::kUniform, root(6 / (fan_in + fan_out))};
    case WeightInit::kHeNormalIn:
    case WeightInit::kWhitening:
      return {InitKind::kNormal, root(2 / fan_in)};
    case WeightInit::kIdentity:
      return {InitKind::kNormal, root(2 / fan_in), true};
    case WeightInit::kHeNormalOut:
      return {InitKind::kNormal, root(2 / fan_out)};
    case WeightInit::kSingaConv:
      return {InitKind::kNormal, root(2 / (fan_in + outputs))};
    case WeightInit::kSingaDense:
      return {InitKind::kNormal, root(2 / (fan_in + fan_out))};
    case WeightInit::kTorchDense:
      return {InitKind::kUniform, root(1 / fan_in)};
  }
  return {};
}

// `dims` starts with K and holds fan_in values for each of them.
std::vector<Parameter> weight_and_bias(const Graph& graph, int index,
                                       std::vector<std::int64_t> dims, std::int64_t fan_in,
                                       std::int64_t fan_out) {
  const Node& node = graph.nodes[static_cast<std::size_t>(index)];
  const Initializer init =
      weight_initializer(node.weight_init, static_cast<double>(fan_in),
                         static_cast<double>(fan_out), static_cast<double>(node.channels));
  std::vector<Parameter> result{
      {node.name + ".weight", SegmentKind::kWeight, std::move(dims), init, index}};
  if (node.bias) {
    const bool torch = node.weight_init == WeightInit::kTorchDense;
    result.push_back({node.name + ".bias",
                      SegmentKind::kBias,
                      {node.channels},
                      torch ? init : Initializer{},
                      index});
  }
  return result;
}

// (K, C/groups, R, S)
std::vector<Parameter> conv_parameters(const Graph& graph, int index) {
  const Node& node = graph.nodes[static_cast<std::size_t>(index)];
  const std::int64_t in = input_of(graph, node).shape.c / node.groups;
  const std::int64_t window = std::int64_t{node.kernel} * node.kernel;
  return weight_and_bias(graph, index, {node.channels, in, node.kernel, node.kernel}, in * window,
                         node.channels * window);
}

// (out, in), `in` the elements of one input sample
std::vector<Parameter> dense_parameters(const Graph& graph, int index) {
  const Node& node = graph.nodes[static_cast<std::size_t>(index)];
  const std::int64_t in = input_of(graph, node).shape.per_sample();
  return weight_and_bias(graph, index, {node.channels, in}, in, node.channels);
}

std::vector<Parameter> batch_norm_parameters(const Graph& graph, int index) {
  const Node& node = graph.nodes[static_cast<std::size_t>(index)];
  const std::vector<std::int64_t> dims{node.shape.c};
  const Initializer one{InitKind::kOne, 0};
  std::vector<Parameter> result;
  if (!node.fixed_gamma) {
    result.push_back({node.name + ".weight", SegmentKind::kGamma, dims, one, index});
  }
  result.push_back({node.name + ".bias", SegmentKind::kBeta, dims, {}, index});
  result.push_back({node.name + ".running_mean", SegmentKind::kStatistic, dims, {}, index});
  result.push_back({node.name + ".running_var", SegmentKind::kStatistic, dims, one, index});
  return result;
}

constexpr Tolerance kExact{};
constexpr Tolerance kTranscendental{1e-5, 1e-6};

constexpr std::array kOperations{
    Operation{.op = Op::kInput, .name = "input"},
    Operation{.op = Op::kConv2d,
              .name = "conv2d",
              .shape = conv_shape,
              .parameters = conv_parameters,
              .weights_apart = true,
              .fuses = Fuses::kAfter,
              .forward = {1e-5, 1e-5},
              .backward = {1e-4, 2e-5}},
    Operation{.op = Op::kDense,
              .name = "dense",
              .shape = dense_shape,
              .parameters = dense_parameters,
              .weights_apart = true,
              .fuses = Fuses::kAfter,
              .forward = {1e-5, 1e-5},
              .backward = {1e-4, 2e-5}},
    Operation{.op = Op::kBatchNorm,
              .name = "batchnorm",
              .shape = same_shape,
              .parameters = batch_norm_parameters,
              .reads_input = true,
              .fuses = Fuses::kWithin,
              .forward = {1e-5, 1e-4},  // rounding of x - mean grows by |mean| / deviation
              .backward = {1e-4, 1e-4, 1e-4}},
    Operation{.op = Op::kRelu,
              .name = "relu",
              .shape = same_shape,
              .reads_output = true,
              .activation = Activation::kRelu},
    Operation{.op = Op::kTanh,
              .name = "tanh",
              .shape = same_shape,
              .reads_output = true,
              .activation = Activation::kTanh,
              .forward = kTranscendental,
              .backward = kTranscendental},
    Operation{.op = Op::kGelu,
              .name = "gelu",
              .shape = same_shape,
              .reads_input = true,
              .forward = kTranscendental,
              .backward = kTranscendental},
    Operation{.op = Op::kSigmoid,
              .name = "sigmoid",
              .shape = same_shape,
              .reads_output = true,
              .forward = kTranscendental,
              .backward = kTranscendental},
    Operation{.op = Op::kSilu,
              .name = "silu",
              .shape = same_shape,
              .reads_input = true,
              .forward = kTranscendental,
              .backward = kTranscendental},
    Operation{.op = Op::kHardSwish, .name = "hardswish", .shape = same_shape, .reads_input = true},
    Operation{
        .op = Op::kHardSigmoid, .name = "hardsigmoid", .shape = same_shape, .reads_input = true},
    Operation{.op = Op::kClip,
              .name = "clip",
              .shape = clip_shape,
              .reads_output = true,
              .forward = kExact,
              .backward = kExact},
    Operation{.op = Op::kAdd,
              .name = "add",
              .shape = add_shape,
              .passes_gradient = true,
              .fuses = Fuses::kAfter},
    Operation{.op = Op::kMultiply,
              .name = "multiply",
              .shape = multiply_shape,
              .reads_others = true,
              .each_input = true,
              .backward = {1e-5, 1e-5}},
    Operation{.op = Op::kConcat,
              .name = "concat",
              .shape = concat_shape,
              .each_input = true,
              .forward = kExact,
              .backward = kExact},
    Operation{.op = Op::kMaxPool,
              .name = "maxpool",
              .shape = pool_shape,
              .reads_input = true,
              .selects = true,
              .forward = kExact,
              .backward = {1e-6, 1e-6, 1e-4}},
    Operation{.op = Op::kAvgPool, .name = "avgpool", .shape = pool_shape},
    Operation{.op = Op::kGlobalAvgPool, .name = "globalavgpool", .shape = global_pool_shape},
    Operation{.op = Op::kFlatten, .name = "flatten", .shape = flatten_shape},
    Operation{.op = Op::kDropout, .name = "dropout", .shape = dropout_shape},
    Operation{.op = Op::kSoftmaxCrossEntropy,
              .name = "loss",
              .shape = loss_shape,
              .reads_input = true,
              .forward = {1e-5, 0},
              .backward = {1e-5, 1e-6}},
};

static_assert(std::ranges::all_of(kOperations, [](const Operation& row) {
  return &row == &kOperations[static_cast<std::size_t>(row.op)];
}));

}  // namespace

std::span<const Operation> operations() { return kOperations; }

const Operation& operation(Op op) { return kOperations.at(static_cast<std::size_t>(op)); }

std::string attributes_text(const Node& node) {
  std::string text;
  if (node.channels != 0) text += fmt::format(" channels={}", node.channels);
  if (node.kernel != 0) text += window_text(node);
  if (node.counts_padding) text += " counts-padding";
  if (node.groups != 1) text += fmt::format(" groups={}", node.groups);
  if (node.op == Op::kClip) text += fmt::format(" low={} high={}", node.low, node.high);
  if (node.bias) text += " bias";
  if (node.epsilon != 0) text += fmt::format(" epsilon={}", node.epsilon);
  if (node.fixed_gamma) text += " fixed-gamma";
  if (node.rate != 0) text += fmt::format(" rate={}", node.rate);
  if (node.label_smoothing != 0) text += fmt::format(" smoothing={}", node.label_smoothing);
  if (node.activation != Activation::kNone) text += fmt::format(" {}", name_of(node.activation));
  return text;
}

void refuse(const Node& node, const std::string& what) {
  throw Error(ExitCode::kBadInput, fmt::format("[model] layer {}: {}", node.name, what));
}

}  // namespace coxswain::graph
