#include "trainer/backend/onednn/plan.h"

namespace coxswain::backend::onednn {

namespace {

Dims weight_dims(const Plan& plan, const Node& node) {
  return {node.channels, plan.input_of(node).shape.c, node.kernel, node.kernel};
}

}  // namespace

void record_conv_forward(Plan& plan, const Step& step) {
  const Node& node = plan.node(step.node);
  NodeState& state = plan.state_of(step.node);
  state.lanes = lanes_convolution(plan.program, step.node);
  if (state.lanes) return record_lanes_forward(plan, step);
  state.conv =
      make_conv_kernels(plan.tape.engine(), {&plan.program, step.node, plan.options.winograd});
  const ConvForward& kernel = state.conv->forward;
  const Tensor weights =
      stored_weights(plan, segment_of(plan, node, "weight"), weight_dims(plan, node));
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

void record_conv_weights(Plan& plan, const Step& step) {
  const Node& node = plan.node(step.node);
  if (plan.state_of(step.node).lanes) return record_lanes_weights(plan, step);
  const ConvWeights& kernel = *plan.state_of(step.node).conv->weights;
  const Tensor stored =
      stored_gradients(plan, segment_of(plan, node, "weight"), weight_dims(plan, node));
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

void record_conv_data(Plan& plan, const Step& step) {
  const Node& node = plan.node(step.node);
  if (plan.state_of(step.node).lanes) return record_lanes_data(plan, step);
  const bool sums_alone = needs_only_channel_sums(plan, step);
  if (sums_alone) {
    plan.state_of(node.inputs[0]).sums_alone = &step;
    plan.tape.run_when(&plan.state.observed);
  }
  const ConvData& kernel = *plan.state_of(step.node).conv->data;
  const Tensor weights =
      stored_weights(plan, segment_of(plan, node, "weight"), weight_dims(plan, node));
  const Tensor gradient = plan.tape.new_tensor(kernel.diff_src_desc());
  plan.tape.add(
      dnnl::convolution_backward_data(kernel), kernel.scratchpad_desc(),
      {{DNNL_ARG_DIFF_DST, converted(plan, plan.edge(step.reads[0]), kernel.diff_dst_desc())},
       {DNNL_ARG_WEIGHTS, converted(plan, weights, kernel.weights_desc())},
       {DNNL_ARG_DIFF_SRC, gradient}});
  deliver(plan, step.writes[0], gradient);
  plan.tape.run_when(nullptr);
}

}  // namespace coxswain::backend::onednn
