#include "trainer/backend/onednn/operations.h"
#include "trainer/backend/onednn/record_lanes.h"

namespace coxswain::backend::onednn {

namespace {

struct State {
  std::optional<PoolForward> forward;  // unless in lanes
  std::optional<Tensor> workspace;     // places of the maxima
};

Window pool_window(const Plan& plan, const Node& node) {
  if (node.op != graph::Op::kGlobalAvgPool) return window_of(node);
  const tensor::Shape& input = plan.input_of(node).shape;
  return {.kernel = {input.h, input.w}, .strides = {1, 1}, .pad_low = {0, 0}, .pad_high = {0, 0}};
}

bool runs_in_lanes(const Plan& plan, const Node& node) {
  return is_lanes_order(plan.edge(node.inputs[0]).desc) && pools_in_lanes(node);
}

// oneDNN's kernels know no order that has the batch inside.
Desc source_order(const Plan& plan, const Node& node) {
  const Desc& desc = plan.edge(node.inputs[0]).desc;
  return is_lanes_order(desc) ? plain(dims_of(desc), type_of(desc)) : desc;
}

dnnl::algorithm algorithm_of(const Node& node) {
  if (node.op == graph::Op::kMaxPool) return dnnl::algorithm::pooling_max;
  return node.counts_padding ? dnnl::algorithm::pooling_avg_include_padding
                             : dnnl::algorithm::pooling_avg_exclude_padding;
}

void forward(Plan& plan, const Step& step) {
  const Node& node = plan.node(step.node);
  State& state = plan.keep(step.node, State{});
  if (runs_in_lanes(plan, node)) {
    state.workspace = record_lanes_pool_forward(plan, step);
    return;
  }
  const Tensor source = converted(plan, plan.edge(node.inputs[0]), source_order(plan, node));
  const auto kind = plan.program.training ? dnnl::prop_kind::forward_training
                                          : dnnl::prop_kind::forward_inference;
  state.forward = pool_forward(plan.tape.engine(), kind, algorithm_of(node), source.desc,
                               any_order(to_dims(node.shape), type_of(source.desc)),
                               pool_window(plan, node), user_scratchpad());
  const Tensor output = plan.tape.new_tensor(state.forward->dst_desc());
  std::vector<Argument> arguments{{DNNL_ARG_SRC, source}, {DNNL_ARG_DST, output}};
  if (state.forward->workspace_desc().get_size() > 0) {
    state.workspace = plan.tape.new_tensor(state.forward->workspace_desc());
    arguments.push_back({DNNL_ARG_WORKSPACE, *state.workspace});
  }
  plan.tape.add(dnnl::pooling_forward(*state.forward), state.forward->scratchpad_desc(),
                std::move(arguments));
  deliver(plan, step.writes[0], output);
}

void backward(Plan& plan, const Step& step) {
  const Node& node = plan.node(step.node);
  const State& state = plan.kept_of<State>(step.node);
  if (!state.forward) return record_lanes_pool_backward(plan, step, *state.workspace);
  const Desc source = source_order(plan, node);
  const Desc output = state.forward->dst_desc();
  const PoolBackward kernel =
      pool_backward(plan.tape.engine(), algorithm_of(node), source, output, pool_window(plan, node),
                    *state.forward, user_scratchpad());
  const Tensor gradient = plan.tape.new_tensor(source);
  std::vector<Argument> arguments{
      {DNNL_ARG_DIFF_DST, converted(plan, plan.edge(step.reads.back()), output)},
      {DNNL_ARG_DIFF_SRC, gradient}};
  if (state.workspace) arguments.push_back({DNNL_ARG_WORKSPACE, *state.workspace});
  plan.tape.add(dnnl::pooling_backward(kernel), kernel.scratchpad_desc(), std::move(arguments));
  deliver(plan, step.writes[0], gradient);
}

// The places of the maxima stand for the input.
std::vector<int> gradient_alone(const Node&, const Step& step) { return {step.reads.back()}; }

}  // namespace

const Recorder kMaxPool{
    .forward = forward, .backward_data = backward, .used_reads = gradient_alone};
const Recorder kAvgPool{.forward = forward, .backward_data = backward};
const Recorder kGlobalAvgPool{.forward = forward, .backward_data = backward};

}  // namespace coxswain::backend::onednn
