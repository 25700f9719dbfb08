#include <algorithm>
#include <cmath>
#include <memory>

#include "trainer/backend/joined_moments.h"
#include "trainer/backend/onednn/operations.h"
#include "trainer/backend/onednn/vector_loops.h"

// BatchNorm. Gamma and beta are separate segments, oneDNN wants them as one array: a private copy,
// made at each forward, and private gradients that are copied out (2C floats each).
//
// A joined norm is one with given statistics, which are those of all ranks' rows: this rank's own
// come from another norm before it, whose output nobody reads. Backward gives it the gradient as if
// they did not depend on the input; what is missing is a norm too, of the input with another scale
// and shift, and is added.
namespace coxswain::backend::onednn {

namespace {

struct State {
  NormForward forward;
  std::optional<Tensor> workspace = {};  // mask of the relu
  Tensor mean = {};
  Tensor variance = {};
  Tensor scale_shift = {};  // gamma, then beta
  std::shared_ptr<JoinedMoments> joined = nullptr;
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
void record_statistics(Plan& plan, const Node& node, const State& state) {
  const tensor::Shape shape = node.shape;
  const std::int64_t channels = shape.c;
  float* mean_slot = gradients_of(plan, node, "running_mean");
  float* variance_slot = gradients_of(plan, node, "running_var");
  const int mean = state.mean.buffer;
  const int variance = state.variance.buffer;
  plan.tape.add({mean, variance}, [=, joined = state.joined](const Addresses& addresses) {
    const std::int64_t count = (joined ? joined->rows() : shape.n) * shape.h * shape.w;
    const float unbiased =
        count > 1 ? static_cast<float>(static_cast<double>(count) / static_cast<double>(count - 1))
                  : 1.F;
    std::copy_n(addresses.at<float>(mean), channels, mean_slot);
    const auto* biased = addresses.at<float>(variance);
    for (std::int64_t c = 0; c < channels; ++c) variance_slot[c] = biased[c] * unbiased;
  });
}

dnnl::normalization_flags flags_of(const Plan& plan, const Node& node) {
  return norm_flags(!plan.program.training || node.joined, fuses_relu(node));
}

// A norm of `source` by the state's mean and variance, which it writes where they are not given.
void add_norm(Plan& plan, const NormForward& norm, const State& state, const Tensor& scale_shift,
              const Tensor& source, const Tensor& output) {
  std::vector<Argument> arguments{{DNNL_ARG_SRC, source},
                                  {DNNL_ARG_DST, output},
                                  {DNNL_ARG_MEAN, state.mean},
                                  {DNNL_ARG_VARIANCE, state.variance}};
  append(plan, arguments, norm_forward_arguments(dims_of(source.desc)[1]), scale_shift);
  if (norm.workspace_desc().get_size() > 0)
    arguments.push_back({DNNL_ARG_WORKSPACE, *state.workspace});
  plan.tape.add(dnnl::batch_normalization_forward(norm), norm.scratchpad_desc(),
                std::move(arguments));
}

// The mean and variance of all ranks' rows.
void record_joined_moments(Plan& plan, const Node& node, const Tensor& source, State& state) {
  state.joined = std::make_shared<JoinedMoments>(node.shape.c);
  const NormForward own =
      norm_forward(plan.tape.engine(), dnnl::prop_kind::forward_training, source.desc, node.epsilon,
                   norm_flags(false, false), user_scratchpad());
  add_norm(plan, own, state, state.scale_shift, source, plan.tape.new_tensor(source.desc));
  const StepState& step = plan.state;
  const auto channels = static_cast<std::size_t>(node.shape.c);
  const std::int64_t rows = node.shape.n;
  const int mean = state.mean.buffer;
  const int variance = state.variance.buffer;
  plan.tape.add({mean, variance}, [=, &step, joined = state.joined](const Addresses& addresses) {
    const std::span means(addresses.at<float>(mean), channels);
    const std::span variances(addresses.at<float>(variance), channels);
    joined->join(step.batch.ranks, rows, means, variances);
    const auto to_float = [](double value) { return static_cast<float>(value); };
    std::ranges::transform(joined->mean(), means.begin(), to_float);
    std::ranges::transform(joined->variance(), variances.begin(), to_float);
  });
}

// Scale and shift of the norm of the input that is missing from d(input): with S the sums over all
// ranks, -gamma / deviation * (S_beta + normalised * S_gamma) / count.
Tensor record_missing_scale_shift(Plan& plan, const Node& node, const State& state,
                                  const Tensor& parameter_gradients) {
  const auto channels = static_cast<std::size_t>(node.shape.c);
  const Tensor missing = plan.tape.new_tensor(plain({2 * node.shape.c}, Type::f32));
  const StepState& step = plan.state;
  const double cells = static_cast<double>(node.shape.h * node.shape.w);
  const double epsilon = node.epsilon;
  const int own = parameter_gradients.buffer;
  const int gammas = state.scale_shift.buffer;
  plan.tape.add({own, gammas, missing.buffer},
                [=, &step, joined = state.joined,
                 sums = std::vector<double>(2 * channels)](const Addresses& addresses) mutable {
                  add_gathered(step.batch.ranks, {addresses.at<float>(own), 2 * channels}, sums);
                  const auto* gamma = addresses.at<float>(gammas);
                  auto* to = addresses.at<float>(missing.buffer);
                  const double count = static_cast<double>(joined->rows()) * cells;
                  for (std::size_t c = 0; c < channels; ++c) {
                    const double scale =
                        -gamma[c] / std::sqrt(joined->variance()[c] + epsilon) / count;
                    to[c] = static_cast<float>(scale * sums[c]);
                    to[channels + c] = static_cast<float>(scale * sums[channels + c]);
                  }
                });
  return missing;
}

void record_missing_gradient(Plan& plan, const Node& node, const State& state, const Tensor& source,
                             const Tensor& parameter_gradients, const Tensor& gradient) {
  const Tensor missing = record_missing_scale_shift(plan, node, state, parameter_gradients);
  const NormForward norm =
      norm_forward(plan.tape.engine(), dnnl::prop_kind::forward_inference, source.desc,
                   node.epsilon, norm_flags(true, false), user_scratchpad());
  const Tensor part = plan.tape.new_tensor(source.desc);
  add_norm(plan, norm, state, missing, source, part);
  const DataType type = data_type_of(source.desc);
  const auto count = static_cast<std::int64_t>(source.desc.get_size()) / tensor::size_of(type);
  plan.tape.add({gradient.buffer, part.buffer}, [=](const Addresses& addresses) {
    std::byte* sum = addresses.bytes(gradient.buffer);
    add_tensors(type, sum, sum, addresses.bytes(part.buffer), false, count);
  });
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
  if (training && node.joined) record_joined_moments(plan, node, source, state);
  const Tensor output = output_in_place_of(plan, node.inputs[0], source.desc);
  if (state.forward.workspace_desc().get_size() > 0)
    state.workspace = plan.tape.new_tensor(state.forward.workspace_desc());
  add_norm(plan, state.forward, state, state.scale_shift, source, output);
  if (node.activation == graph::Activation::kTanh) record_tanh(plan, output);
  if (training) record_statistics(plan, node, state);
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
  if (!step.writes.empty()) {
    if (node.joined)
      record_missing_gradient(plan, node, state, source, parameter_gradients, gradient);
    deliver(plan, step.writes[0], gradient);
  }
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
