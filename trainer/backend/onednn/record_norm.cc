#include <algorithm>
#include <cmath>

#include "trainer/backend/onednn/operations.h"
#include "trainer/backend/onednn/vector_loops.h"

// BatchNorm. Gamma and beta are separate segments, oneDNN wants them as one array: a private copy,
// made at each forward, and private gradients that are copied out (2C floats each).
namespace coxswain::backend::onednn {

namespace {

struct State {
  NormForward forward;
  std::optional<Tensor> workspace = {};  // mask of the relu
  Tensor mean = {};
  Tensor variance = {};
  Tensor scale_shift = {};  // gamma, then beta
};

bool fuses_relu(const Node& node) { return node.activation == graph::Activation::kRelu; }

// The weights (or gradients) of a segment of the node, null where it has none (fixed gamma).
float* weights_of(const Plan& plan, const Node& node, std::string_view suffix) {
  if (!find_segment(plan, node, suffix)) return nullptr;
  return weights_of(plan, segment_of(plan, node, suffix));
}

float* gradients_of(const Plan& plan, const Node& node, std::string_view suffix) {
  if (!find_segment(plan, node, suffix)) return nullptr;
  return gradients_of(plan, segment_of(plan, node, suffix));
}

Tensor record_scale_shift(Plan& plan, const Node& node) {
  const std::int64_t channels = node.shape.c;
  const Tensor both = plan.tape.new_tensor(plain({2 * channels}, Type::f32));
  const float* gamma = weights_of(plan, node, "weight");
  const float* beta = weights_of(plan, node, "bias");
  plan.tape.add({both.buffer}, [=](const Addresses& addresses) {
    auto* to = addresses.at<float>(both.buffer);
    if (gamma != nullptr) {
      std::copy_n(gamma, channels, to);
    } else {
      std::fill_n(to, channels, 1.F);
    }
    std::copy_n(beta, channels, to + channels);
  });
  return both;
}

void append(Plan& plan, std::vector<Argument>& arguments, const std::vector<NormArgument>& parts,
            const Tensor& array) {
  for (const NormArgument& part : parts) {
    arguments.push_back({part.id, plan.tape.view(part.desc, array.buffer, part.offset)});
  }
}

// This step's mean and unbiased variance, where the statistics of all ranks are summed.
void record_statistics(Plan& plan, const Node& node, const Tensor& mean, const Tensor& variance) {
  const std::int64_t channels = node.shape.c;
  const std::int64_t count = node.shape.n * node.shape.h * node.shape.w;
  const float unbiased =
      count > 1 ? static_cast<float>(static_cast<double>(count) / static_cast<double>(count - 1))
                : 1.F;
  float* mean_slot = gradients_of(plan, node, "running_mean");
  float* variance_slot = gradients_of(plan, node, "running_var");
  plan.tape.add({mean.buffer, variance.buffer}, [=](const Addresses& addresses) {
    std::copy_n(addresses.at<float>(mean.buffer), channels, mean_slot);
    const auto* biased = addresses.at<float>(variance.buffer);
    for (std::int64_t c = 0; c < channels; ++c) variance_slot[c] = biased[c] * unbiased;
  });
}

dnnl::normalization_flags flags_of(const Plan& plan, const Node& node) {
  return norm_flags(!plan.program.training, fuses_relu(node));
}

// Tanh after a norm is not fused by oneDNN: applied in place, its derivative taken before the
// norm's.
Tensor record_tanh_derivative(Plan& plan, const Tensor& output, const Tensor& gradient) {
  const Tensor result = plan.tape.new_tensor(gradient.desc);
  const Tensor y = converted(plan, output, gradient.desc);
  const DataType type = data_type_of(gradient.desc);
  const auto count = static_cast<std::int64_t>(gradient.desc.get_size()) / tensor::size_of(type);
  plan.tape.add({y.buffer, gradient.buffer, result.buffer}, [=](const Addresses& addresses) {
    const void* part = addresses.bytes(gradient.buffer);
    join_gradients(type, addresses.bytes(result.buffer), {&part, 1}, addresses.bytes(y.buffer),
                   graph::Activation::kTanh, count);
  });
  return result;
}

void record_diff_scale_shift(Plan& plan, const Node& node, const Tensor& gradients) {
  const std::int64_t channels = node.shape.c;
  float* gamma = gradients_of(plan, node, "weight");
  float* beta = gradients_of(plan, node, "bias");
  plan.tape.add({gradients.buffer}, [=](const Addresses& addresses) {
    const auto* from = addresses.at<float>(gradients.buffer);
    if (gamma != nullptr) std::copy_n(from, channels, gamma);
    std::copy_n(from + channels, channels, beta);
  });
}

void forward(Plan& plan, const Step& step) {
  const Node& node = plan.node(step.node);
  const Tensor& source = plan.edge(node.inputs[0]);
  const bool training = plan.program.training;
  const Desc channels = plain({node.shape.c}, Type::f32);
  const auto kind =
      training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
  State& state =
      plan.keep(step.node, State{norm_forward(plan.tape.engine(), kind, source.desc, node.epsilon,
                                              flags_of(plan, node), user_scratchpad())});
  state.scale_shift = record_scale_shift(plan, node);
  if (training) {
    state.mean = plan.tape.new_tensor(channels);
    state.variance = plan.tape.new_tensor(channels);
  } else {
    state.mean = plan.tape.outside(channels, weights_of(plan, node, "running_mean"));
    state.variance = plan.tape.outside(channels, weights_of(plan, node, "running_var"));
  }
  const Tensor output = output_in_place_of(plan, node.inputs[0], source.desc);
  std::vector<Argument> arguments{{DNNL_ARG_SRC, source},
                                  {DNNL_ARG_DST, output},
                                  {DNNL_ARG_MEAN, state.mean},
                                  {DNNL_ARG_VARIANCE, state.variance}};
  append(plan, arguments, norm_forward_arguments(node.shape.c), state.scale_shift);
  if (state.forward.workspace_desc().get_size() > 0) {
    state.workspace = plan.tape.new_tensor(state.forward.workspace_desc());
    arguments.push_back({DNNL_ARG_WORKSPACE, *state.workspace});
  }
  plan.tape.add(dnnl::batch_normalization_forward(state.forward), state.forward.scratchpad_desc(),
                std::move(arguments));
  if (node.activation == graph::Activation::kTanh) record_tanh(plan, output);
  if (training) record_statistics(plan, node, state.mean, state.variance);
  deliver(plan, step.writes[0], output);
}

void backward(Plan& plan, const Step& step) {
  const Node& node = plan.node(step.node);
  const State& state = plan.kept_of<State>(step.node);
  const Tensor& source = plan.edge(step.reads.front());
  if (const Step* conv_data = plan.sums_alone[static_cast<std::size_t>(step.node)]) {
    plan.tape.run_when(&plan.state.observed, false);
    record_channel_sums(plan, *conv_data, gradients_of(plan, node, "bias"));
    plan.tape.run_when(&plan.state.observed);
  }
  Tensor output_gradient = converted(plan, plan.edge(step.reads.back()), source.desc);
  if (node.activation == graph::Activation::kTanh) {
    output_gradient = record_tanh_derivative(plan, plan.edge(step.node), output_gradient);
  }
  const bool own_copy = output_gradient.buffer != plan.edge(step.reads.back()).buffer;
  const Tensor gradient =
      own_copy ? output_gradient : output_in_place_of(plan, step.reads.back(), source.desc);
  const NormBackward kernel = norm_backward(plan.tape.engine(), source.desc, node.epsilon,
                                            flags_of(plan, node), state.forward, user_scratchpad());
  const Tensor parameter_gradients = plan.tape.new_tensor(plain({2 * node.shape.c}, Type::f32));
  std::vector<Argument> arguments{{DNNL_ARG_SRC, source},
                                  {DNNL_ARG_DIFF_DST, output_gradient},
                                  {DNNL_ARG_DIFF_SRC, gradient},
                                  {DNNL_ARG_MEAN, state.mean},
                                  {DNNL_ARG_VARIANCE, state.variance}};
  append(plan, arguments, norm_backward_arguments(node.shape.c), state.scale_shift);
  append(plan, arguments, norm_gradient_arguments(node.shape.c), parameter_gradients);
  if (state.workspace) arguments.push_back({DNNL_ARG_WORKSPACE, *state.workspace});
  plan.tape.add(dnnl::batch_normalization_backward(kernel), kernel.scratchpad_desc(),
                std::move(arguments));
  record_diff_scale_shift(plan, node, parameter_gradients);
  if (!step.writes.empty()) deliver(plan, step.writes[0], gradient);
  plan.tape.run_when(nullptr);
}

// The mask of a relu stands for the output.
std::vector<int> used_reads(const Node& node, const Step& step) {
  if (!fuses_relu(node)) return step.reads;
  return {step.reads.front(), step.reads.back()};
}

}  // namespace

const Recorder kBatchNorm{.forward = forward,
                          .backward_data = backward,
                          .backward_weights = backward,
                          .used_reads = used_reads};

}  // namespace coxswain::backend::onednn
