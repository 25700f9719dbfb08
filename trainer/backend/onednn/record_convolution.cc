#include <algorithm>
#include <string_view>
#include <variant>

#include "trainer/backend/onednn/convolution_algorithm.h"
#include "trainer/backend/onednn/operations.h"
#include "trainer/backend/onednn/record_lanes.h"

namespace coxswain::backend::onednn {

namespace {

using graph::Program;

// Value. The weight gradient may compute in float32 where oneDNN has no good bfloat16 kernel.
// `weights` and `data` exist in training alone.
struct ConvKernels {
  ConvForward forward;
  std::optional<ConvWeights> weights;
  std::optional<ConvData> data;
};

using State = std::variant<ConvKernels, LanesConvolution>;

template <typename Kernel>
bool is_slow(const Kernel& kernel) {
  const std::string_view name = kernel.impl_info_str();
  return name.find("ref") != name.npos || name.find("gemm") != name.npos;
}

template <typename Kernel>
bool is_reference(const Kernel& kernel) {
  return std::string_view(kernel.impl_info_str()).find("ref") != std::string_view::npos;
}

// The tensors of a convolution, their inner orders left to oneDNN.
LayerDescs conv_descs(const Node& node, const tensor::Shape& input, Type type, Type weights_type) {
  const Dims weights = conv_weight_dims(node, input);
  const Desc bias = node.bias ? plain({node.channels}, Type::f32) : Desc();
  return {any_order(to_dims(input), type), any_order(weights, weights_type), bias,
          any_order(to_dims(node.shape), type)};
}

struct ConvCase {
  const dnnl::engine& engine;
  const Node& node;
  tensor::Shape input;
  Window window;
  bool training;
  bool needs_data;
};

// The weight gradient in the layouts of the forward pass, or in float32 where oneDNN has only a
// generic kernel.
ConvWeights make_conv_weights(const ConvCase& c, const ConvForward& forward,
                              dnnl::algorithm algorithm, Type type) {
  LayerDescs descs = conv_descs(c.node, c.input, type, Type::f32);
  descs.source = forward.src_desc();
  descs.output = forward.dst_desc();
  ConvWeights result =
      conv_weights(c.engine, algorithm, descs, c.window, forward, user_scratchpad());
  if (type == Type::f32 || !is_slow(result)) return result;
  const LayerDescs wide = conv_descs(c.node, c.input, Type::f32, Type::f32);
  const ConvForward hint = conv_forward(c.engine, dnnl::prop_kind::forward_training, algorithm,
                                        wide, c.window, user_scratchpad());
  return conv_weights(c.engine, algorithm, wide, c.window, hint, user_scratchpad());
}

ConvKernels kernels_of(const ConvCase& c, Type type, dnnl::algorithm algorithm) {
  const LayerDescs descs = conv_descs(c.node, c.input, type, type);
  const auto kind =
      c.training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
  ConvKernels result;
  result.forward =
      conv_forward(c.engine, kind, algorithm, descs, c.window, with_activation(c.node.activation));
  if (!c.training) return result;
  result.weights = make_conv_weights(c, result.forward, algorithm, type);
  if (!c.needs_data) return result;
  LayerDescs data = descs;
  data.output = result.forward.dst_desc();
  result.data = conv_data(c.engine, algorithm, data, c.window, result.forward, user_scratchpad());
  return result;
}

bool uses_reference(const ConvKernels& kernels) {
  return is_reference(kernels.forward) || (kernels.weights && is_reference(*kernels.weights)) ||
         (kernels.data && is_reference(*kernels.data));
}

ConvKernels make_kernels(const dnnl::engine& engine, const LayerSetting& setting) {
  const Program& program = *setting.program;
  const Node& node = node_of(program, setting.node);
  const tensor::Shape& input = node_of(program, node.inputs[0]).shape;
  const Type type = compute_type(program);
  const ConvCase c{engine,
                   node,
                   input,
                   window_of(node),
                   program.training,
                   has_step(program, setting.node, StepKind::kBackwardData)};
  if (algorithm_of(setting) == ConvAlgorithm::kWinograd) {
    ConvKernels kernels = kernels_of(c, type, dnnl::algorithm::convolution_auto);
    if (!uses_reference(kernels)) return kernels;
  }
  return kernels_of(c, type, dnnl::algorithm::convolution_direct);
}

void forward(Plan& plan, const Step& step) {
  const Node& node = plan.node(step.node);
  const LayerSetting setting{&plan.program, step.node, &plan.options};
  if (algorithm_of(setting) == ConvAlgorithm::kLanes) {
    const LanesConvolution lanes = *lanes_convolution(plan.program, step.node);
    plan.keep(step.node, State{lanes});
    return record_lanes_forward(plan, step, lanes);
  }
  const State& state = plan.keep(step.node, State{make_kernels(plan.tape.engine(), setting)});
  const ConvForward& kernel = std::get<ConvKernels>(state).forward;
  const Tensor weights = product_weights(plan, node, conv_weight_dims(plan, node));
  const Tensor output = plan.tape.new_tensor(kernel.dst_desc());
  std::vector<Argument> arguments{
      {DNNL_ARG_SRC, converted(plan, plan.edge(node.inputs[0]), kernel.src_desc())},
      {DNNL_ARG_WEIGHTS, converted(plan, weights, kernel.weights_desc())},
      {DNNL_ARG_DST, output}};
  if (node.bias) {
    arguments.push_back(
        {DNNL_ARG_BIAS, stored_weights(plan, segment_of(plan, node, "bias"), {node.channels})});
  }
  plan.tape.add(dnnl::convolution_forward(kernel), kernel.scratchpad_desc(), std::move(arguments));
  deliver(plan, step.writes[0], output);
}

void backward_weights(Plan& plan, const Step& step) {
  const Node& node = plan.node(step.node);
  const State& state = plan.kept_of<State>(step.node);
  if (const auto* lanes = std::get_if<LanesConvolution>(&state)) {
    return record_lanes_weights(plan, step, *lanes);
  }
  const ConvWeights& kernel = *std::get<ConvKernels>(state).weights;
  const Tensor stored =
      stored_gradients(plan, segment_of(plan, node, "weight"), conv_weight_dims(plan, node));
  const bool direct = stored.desc == kernel.diff_weights_desc();
  const Tensor gradient = direct ? stored : plan.tape.new_tensor(kernel.diff_weights_desc());
  std::vector<Argument> arguments{
      {DNNL_ARG_SRC, converted(plan, plan.edge(step.reads[0]), kernel.src_desc())},
      {DNNL_ARG_DIFF_DST, converted(plan, plan.edge(step.reads[1]), kernel.diff_dst_desc())},
      {DNNL_ARG_DIFF_WEIGHTS, gradient}};
  if (node.bias) {
    arguments.push_back({DNNL_ARG_DIFF_BIAS,
                         stored_gradients(plan, segment_of(plan, node, "bias"), {node.channels})});
  }
  plan.tape.add(dnnl::convolution_backward_weights(kernel), kernel.scratchpad_desc(),
                std::move(arguments));
  if (!direct) copy(plan, gradient, stored);
}

void backward_data(Plan& plan, const Step& step) {
  const Node& node = plan.node(step.node);
  const State& state = plan.kept_of<State>(step.node);
  if (const auto* lanes = std::get_if<LanesConvolution>(&state)) {
    return record_lanes_data(plan, step, *lanes);
  }
  const bool sums_alone = needs_only_channel_sums(plan, step);
  if (sums_alone) {
    plan.sums_alone[static_cast<std::size_t>(node.inputs[0])] = &step;
    plan.tape.run_when(&plan.state.observed);
  }
  const ConvData& kernel = *std::get<ConvKernels>(state).data;
  const Tensor weights = product_weights(plan, node, conv_weight_dims(plan, node));
  const Tensor gradient = plan.tape.new_tensor(kernel.diff_src_desc());
  plan.tape.add(
      dnnl::convolution_backward_data(kernel), kernel.scratchpad_desc(),
      {{DNNL_ARG_DIFF_DST, converted(plan, plan.edge(step.reads[0]), kernel.diff_dst_desc())},
       {DNNL_ARG_WEIGHTS, converted(plan, weights, kernel.weights_desc())},
       {DNNL_ARG_DIFF_SRC, gradient}});
  deliver(plan, step.writes[0], gradient);
  plan.tape.run_when(nullptr);
}

std::optional<Desc> weight_order(const dnnl::engine& engine, const LayerSetting& setting) {
  if (algorithm_of(setting) == ConvAlgorithm::kLanes) return std::nullopt;
  return make_kernels(engine, setting).weights->diff_weights_desc();
}

}  // namespace

const Recorder kConv2d{.forward = forward,
                       .backward_data = backward_data,
                       .backward_weights = backward_weights,
                       .weight_order = weight_order};

}  // namespace coxswain::backend::onednn
