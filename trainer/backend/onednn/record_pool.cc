#include "trainer/backend/onednn/plan.h"

namespace coxswain::backend::onednn {

namespace {

Window pool_window(const Plan& plan, const Node& node) {
  if (node.op != graph::Op::kGlobalAvgPool) return window_of(node);
  const tensor::Shape& input = plan.input_of(node).shape;
  return {.kernel = {input.h, input.w}, .strides = {1, 1}, .pad_low = {0, 0}, .pad_high = {0, 0}};
}

dnnl::algorithm algorithm_of(const Node& node) {
  return node.op == graph::Op::kMaxPool ? dnnl::algorithm::pooling_max
                                        : dnnl::algorithm::pooling_avg_exclude_padding;
}

}  // namespace

void record_pool_forward(Plan& plan, const Step& step) {
  const Node& node = plan.node(step.node);
  NodeState& state = plan.state_of(step.node);
  const Tensor& source = plan.edge(node.inputs[0]);
  if (is_lanes_order(source.desc)) return record_lanes_pool_forward(plan, step);
  const Desc any(to_dims(node.shape), type_of(source.desc), Tag::any);
  const auto kind = plan.program.training ? dnnl::prop_kind::forward_training
                                          : dnnl::prop_kind::forward_inference;
  state.pool = pool_forward(plan.tape.engine(), kind, algorithm_of(node), source.desc, any,
                            pool_window(plan, node), user_scratchpad());
  const Tensor output = plan.tape.new_tensor(state.pool->dst_desc());
  std::vector<Argument> arguments{{DNNL_ARG_SRC, source}, {DNNL_ARG_DST, output}};
  if (state.pool->workspace_desc().get_size() > 0) {
    state.workspace = plan.tape.new_tensor(state.pool->workspace_desc());
    arguments.push_back({DNNL_ARG_WORKSPACE, state.workspace});
  }
  plan.tape.add(dnnl::pooling_forward(*state.pool), state.pool->scratchpad_desc(),
                std::move(arguments));
  deliver(plan, step.writes[0], output);
}

void record_pool_backward(Plan& plan, const Step& step) {
  const Node& node = plan.node(step.node);
  NodeState& state = plan.state_of(step.node);
  const Desc& source = plan.edge(node.inputs[0]).desc;
  if (is_lanes_order(source)) return record_lanes_pool_backward(plan, step);
  const Desc output = state.pool->dst_desc();
  const PoolBackward kernel =
      pool_backward(plan.tape.engine(), algorithm_of(node), source, output, pool_window(plan, node),
                    *state.pool, user_scratchpad());
  const Tensor gradient = plan.tape.new_tensor(source);
  std::vector<Argument> arguments{
      {DNNL_ARG_DIFF_DST, converted(plan, plan.edge(step.reads.back()), output)},
      {DNNL_ARG_DIFF_SRC, gradient}};
  if (state.workspace.buffer >= 0) arguments.push_back({DNNL_ARG_WORKSPACE, state.workspace});
  plan.tape.add(dnnl::pooling_backward(kernel), kernel.scratchpad_desc(), std::move(arguments));
  deliver(plan, step.writes[0], gradient);
}

}  // namespace coxswain::backend::onednn
