#include "trainer/backend/reference/reference_executable.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/backend/loss.h"
#include "trainer/contract/error.h"
#include "trainer/tensor/philox.h"

namespace coxswain::backend::reference {

namespace {

using graph::Op;
using graph::StepKind;
using tensor::DataType;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

void round_all(DataType type, std::span<float> values) {
  if (type == DataType::kFloat32) return;
  for (float& value : values) value = tensor::round_to(type, value);
}

int segment_index(const tensor::ParameterLayout& layout, const std::string& name) {
  const std::optional<int> index = layout.find(name);
  if (!index || layout.segments[at(*index)].layout != "canonical") {
    throw Error(ExitCode::kInternal,
                fmt::format("[backend] the parameter buffer has no {} in canonical layout", name));
  }
  return *index;
}

}  // namespace

ReferenceExecutable::ReferenceExecutable(const graph::Program& program,
                                         tensor::ParameterBuffer& parameters)
    : program_(program), parameters_(parameters) {
  for (const graph::Edge& e : program.edges) edges_.emplace_back(e.shape.elements());
  for (const Node& n : program.graph.nodes) {
    const tensor::ParameterLayout& layout = parameters.layout();
    const bool norm = n.op == Op::kBatchNorm;
    const bool product = n.op == Op::kConv2d || n.op == Op::kDense;
    Segments s;
    if (product || (norm && !n.fixed_gamma)) s.weight = segment_index(layout, n.name + ".weight");
    if (norm || (product && n.bias)) s.bias = segment_index(layout, n.name + ".bias");
    if (norm) s.running_mean = segment_index(layout, n.name + ".running_mean");
    if (norm) s.running_variance = segment_index(layout, n.name + ".running_var");
    segments_.push_back(s);
    const std::size_t channels = norm ? static_cast<std::size_t>(n.shape.c) : 0;
    moments_.push_back({std::vector<double>(channels), std::vector<double>(channels)});
  }
  const auto is_bfloat16 = [](const Node& n) { return n.type == DataType::kBFloat16; };
  if (std::ranges::any_of(program.graph.nodes, is_bfloat16)) {
    rounded_input_.resize(edges_.front().size());
    rounded_weights_.resize(static_cast<std::size_t>(parameters.layout().size()));
  }
}

void ReferenceExecutable::load(const Batch& batch) {
  check(program_, batch);
  batch_ = batch;
  store(0, batch.images);
  if (weights_changed_) round_weights();
}

void ReferenceExecutable::round_weights() {
  weights_changed_ = false;
  if (rounded_weights_.empty()) return;
  std::ranges::copy(parameters_.weights(), rounded_weights_.begin());
  round_all(DataType::kBFloat16, rounded_weights_);
}

std::vector<float> ReferenceExecutable::fetch(int index) { return edges_[at(index)]; }

void ReferenceExecutable::store(int index, std::span<const float> values) {
  std::ranges::copy(values, edges_[at(index)].begin());
  round_all(program_.edges[at(index)].type, edge(index));
  if (index != 0 || rounded_input_.empty()) return;
  std::ranges::copy(values, rounded_input_.begin());
  round_all(DataType::kBFloat16, rounded_input_);
}

void ReferenceExecutable::run(int step_index) {
  const graph::Step& step = program_.steps[at(step_index)];
  switch (step.kind) {
    case StepKind::kForward:
      forward(step.node, step);
      break;
    case StepKind::kLossGradient:
      softmax_cross_entropy_gradient(input_shape(node(step.node)), node(step.node).label_smoothing,
                                     edge(step.reads[0]), batch_, edge(step.writes[0]));
      break;
    case StepKind::kJoinGradients:
      join(step);
      break;
    case StepKind::kBackwardWeights:
      backward_weights(step.node, step);
      break;
    case StepKind::kBackwardData:
      backward_data(step.node, step);
      break;
  }
  for (const int written : step.writes) round_all(program_.edges[at(written)].type, edge(written));
}

void ReferenceExecutable::forward(int index, const graph::Step& step) {
  const Node& n = node(index);
  const Segments& s = segments_[at(index)];
  const In x = read(n, step.reads[0]);
  if (n.op == Op::kSoftmaxCrossEntropy) {
    sums_ = softmax_cross_entropy(input_shape(n), n.label_smoothing, x, batch_);
    return;
  }
  const Out y = edge(step.writes[0]);
  switch (n.op) {
    case Op::kConv2d:
      convolution_forward(window(n), x, weights(n, s.weight), parameter(s.bias), y);
      break;
    case Op::kDense:
      dense_forward(n.shape.n, x, weights(n, s.weight), parameter(s.bias), y);
      break;
    case Op::kBatchNorm:
      batch_norm_forward(index, x, y);
      return;  // activates itself
    case Op::kAdd:
      std::ranges::transform(x, read(n, step.reads[1]), y.begin(), std::plus<>());
      break;
    case Op::kMaxPool:
      max_pool_forward(window(n), x, y);
      break;
    case Op::kAvgPool:
      avg_pool_forward(window(n), x, y);
      break;
    case Op::kGlobalAvgPool:
      global_avg_pool_forward(input_shape(n), x, y);
      break;
    case Op::kGelu:
      gelu_forward(x, y);
      break;
    case Op::kDropout:
      if (program_.training) return dropout(dropout_of(n), batch_, x, y);
      [[fallthrough]];
    default:
      std::ranges::copy(x, y.begin());
      break;  // Flatten, and what an activation starts from
  }
  if (n.op == Op::kRelu) activate(Activation::kRelu, y);
  if (n.op == Op::kTanh) activate(Activation::kTanh, y);
  activate(n.activation, y);
}

void ReferenceExecutable::batch_norm_forward(int index, In x, Out y) {
  const Segments& s = segments_[at(index)];
  const Shape& shape = node(index).shape;
  SavedMoments& saved = moments_[at(index)];
  if (program_.training) {
    batch_moments(shape, x, {saved.mean, saved.variance});
    const std::int64_t count = shape.n * shape.h * shape.w;
    for (std::size_t c = 0; c < saved.mean.size(); ++c) {
      gradient(s.running_mean)[c] = static_cast<float>(saved.mean[c]);
      gradient(s.running_variance)[c] = static_cast<float>(unbiased(saved.variance[c], count));
    }
  } else {
    std::ranges::copy(parameter(s.running_mean), saved.mean.begin());
    std::ranges::copy(parameter(s.running_variance), saved.variance.begin());
  }
  reference::batch_norm_forward(norm(index), x, parameter(s.bias), y);
}

void ReferenceExecutable::join(const graph::Step& step) {
  const Activation activation = graph::joined_activation(program_, step);
  const std::size_t parts = step.reads.size() - (activation == Activation::kNone ? 0 : 1);
  const Out sum = edge(step.writes[0]);
  std::ranges::copy(edge(step.reads[0]), sum.begin());
  for (std::size_t part = 1; part < parts; ++part) {
    std::ranges::transform(sum, edge(step.reads[part]), sum.begin(), std::plus<>());
  }
  if (activation != Activation::kNone)
    multiply_by_derivative(activation, edge(step.reads.back()), sum);
}

void ReferenceExecutable::backward_weights(int index, const graph::Step& step) {
  const Node& n = node(index);
  if (n.op == Op::kBatchNorm) return batch_norm_backward(index, step);
  const Segments& s = segments_[at(index)];
  const In x = read(n, step.reads[0]);
  const In d_y = edge(step.reads[1]);
  if (n.op == Op::kConv2d) {
    convolution_backward_weights(window(n), x, d_y, gradient(s.weight), gradient(s.bias));
  } else {
    dense_backward_weights(n.shape.n, x, d_y, gradient(s.weight), gradient(s.bias));
  }
}

void ReferenceExecutable::backward_data(int index, const graph::Step& step) {
  const Node& n = node(index);
  const In first = edge(step.reads[0]);  // the input or the output, where the rule needs one
  const In d_y = edge(step.reads.back());
  const Out d_x = edge(step.writes[0]);
  const int weight = segments_[at(index)].weight;
  switch (n.op) {
    case Op::kConv2d:
      return convolution_backward_data(window(n), weights(n, weight), d_y, d_x);
    case Op::kDense:
      return dense_backward_data(n.shape.n, weights(n, weight), d_y, d_x);
    case Op::kBatchNorm:
      return batch_norm_backward(index, step);
    case Op::kMaxPool:
      return max_pool_backward(window(n), first, d_y, d_x);
    case Op::kAvgPool:
      return avg_pool_backward(window(n), d_y, d_x);
    case Op::kGlobalAvgPool:
      return global_avg_pool_backward(input_shape(n), d_y, d_x);
    case Op::kGelu:
      return gelu_backward(first, d_y, d_x);
    case Op::kDropout:
      return dropout(dropout_of(n), batch_, d_y, d_x);
    default:
      std::ranges::copy(d_y, d_x.begin());  // Flatten, Relu, Tanh
  }
  if (n.op == Op::kRelu) multiply_by_derivative(Activation::kRelu, first, d_x);
  if (n.op == Op::kTanh) multiply_by_derivative(Activation::kTanh, first, d_x);
}

void ReferenceExecutable::batch_norm_backward(int index, const graph::Step& step) {
  const Segments& s = segments_[at(index)];
  const In x = read(node(index), step.reads[0]);
  const In y = step.reads.size() == 3 ? In(edge(step.reads[1])) : In();
  const Out d_x = step.writes.empty() ? Out() : edge(step.writes[0]);
  reference::batch_norm_backward(norm(index), x, y, edge(step.reads.back()), gradient(s.weight),
                                 gradient(s.bias), d_x);
}

Window ReferenceExecutable::window(const Node& n) const {
  return {input_shape(n), n.shape, n.kernel, n.stride, n.pad};
}

BatchNorm ReferenceExecutable::norm(int index) {
  const Node& n = node(index);
  SavedMoments& saved = moments_[at(index)];
  return {n.shape,
          n.epsilon,
          n.activation,
          {saved.mean, saved.variance},
          parameter(segments_[at(index)].weight)};
}

Dropout ReferenceExecutable::dropout_of(const Node& n) const {
  return {tensor::stream_of(n.name), n.rate, n.shape.per_sample()};
}

bool ReferenceExecutable::computes_in_bfloat16(const Node& n) const {
  if (n.op == Op::kSoftmaxCrossEntropy) return false;
  return n.type == DataType::kBFloat16 || std::ranges::any_of(n.inputs, [&](int input) {
           return node(input).type == DataType::kBFloat16;
         });
}

In ReferenceExecutable::read(const Node& n, int index) {
  if (index == 0 && computes_in_bfloat16(n)) return rounded_input_;
  return edges_[at(index)];
}

In ReferenceExecutable::parameter(int segment) const {
  if (segment < 0) return {};
  return parameters_.weights(parameters_.layout().segments[at(segment)]);
}

In ReferenceExecutable::weights(const Node& n, int segment) const {
  if (!computes_in_bfloat16(n)) return parameter(segment);
  const tensor::Segment& s = parameters_.layout().segments[at(segment)];
  return In(rounded_weights_)
      .subspan(static_cast<std::size_t>(s.offset), static_cast<std::size_t>(s.stored));
}

Out ReferenceExecutable::gradient(int segment) {
  if (segment < 0) return {};
  return parameters_.gradients(parameters_.layout().segments[at(segment)]);
}

}  // namespace coxswain::backend::reference
