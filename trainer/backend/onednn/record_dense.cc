#include "trainer/backend/onednn/plan.h"

namespace coxswain::backend::onednn {

namespace {

Dims weight_dims(const Plan& plan, const Node& node) {
  Dims dims = dense_source_dims(plan.input_of(node).shape);
  dims[0] = node.channels;
  return dims;
}

// An edge as a dense kernel wants it: a 1x1 map as the (N, C) matrix that its row-major bytes are.
Tensor as_source(Plan& plan, const Tensor& edge, const tensor::Shape& shape, const Desc& wanted) {
  const Dims matrix = dense_source_dims(shape);
  if (matrix.size() == 4) return converted(plan, edge, wanted);
  const Tensor rows = converted(plan, edge, plain(to_dims(shape), type_of(edge.desc)));
  return converted(plan, plan.tape.view(plain(matrix, type_of(edge.desc)), rows.buffer), wanted);
}

// d(output) as the (N, K) matrix of the given descriptor.
Tensor output_gradient(Plan& plan, const Node& node, int edge, const Desc& wanted) {
  const Tensor rows = converted(plan, plan.edge(edge), plain(to_dims(node.shape), type_of(wanted)));
  return plan.tape.view(wanted, rows.buffer);
}

}  // namespace

void record_dense_forward(Plan& plan, const Step& step) {
  const Node& node = plan.node(step.node);
  NodeState& state = plan.state_of(step.node);
  state.dense = make_dense_kernels(plan.tape.engine(), {&plan.program, step.node, false});
  const DenseForward& kernel = state.dense->forward;
  const tensor::Shape& input = plan.input_of(node).shape;
  const Tensor source = as_source(plan, plan.edge(node.inputs[0]), input, kernel.src_desc());
  const Tensor weights =
      stored_weights(plan, segment_of(plan, node, "weight"), weight_dims(plan, node));
  const Tensor output = plan.tape.new_tensor(plain(to_dims(node.shape), to_type(node.type)));
  std::vector<Argument> arguments{
      {DNNL_ARG_SRC, source},
      {DNNL_ARG_WEIGHTS, converted(plan, weights, kernel.weights_desc())},
      {DNNL_ARG_DST, plan.tape.view(kernel.dst_desc(), output.buffer)}};
  if (node.bias) {
    arguments.push_back(
        {DNNL_ARG_BIAS, stored_weights(plan, segment_of(plan, node, "bias"), {node.channels})});
  }
  plan.tape.add(dnnl::inner_product_forward(kernel), kernel.scratchpad_desc(),
                std::move(arguments));
  deliver(plan, step.writes[0], output);
}

void record_dense_weights(Plan& plan, const Step& step) {
  const Node& node = plan.node(step.node);
  const DenseWeights& kernel = *plan.state_of(step.node).dense->weights;
  const tensor::Shape& input = plan.input_of(node).shape;
  const Tensor stored =
      stored_gradients(plan, segment_of(plan, node, "weight"), weight_dims(plan, node));
  const bool direct = stored.desc == kernel.diff_weights_desc();
  const Tensor gradient = direct ? stored : plan.tape.new_tensor(kernel.diff_weights_desc());
  std::vector<Argument> arguments{
      {DNNL_ARG_SRC, as_source(plan, plan.edge(step.reads[0]), input, kernel.src_desc())},
      {DNNL_ARG_DIFF_DST, output_gradient(plan, node, step.reads[1], kernel.diff_dst_desc())},
      {DNNL_ARG_DIFF_WEIGHTS, gradient}};
  if (node.bias) {
    arguments.push_back({DNNL_ARG_DIFF_BIAS,
                         stored_gradients(plan, segment_of(plan, node, "bias"), {node.channels})});
  }
  plan.tape.add(dnnl::inner_product_backward_weights(kernel), kernel.scratchpad_desc(),
                std::move(arguments));
  if (!direct) copy(plan, gradient, stored);
}

void record_dense_data(Plan& plan, const Step& step) {
  const Node& node = plan.node(step.node);
  const DenseData& kernel = *plan.state_of(step.node).dense->data;
  const tensor::Shape& input = plan.input_of(node).shape;
  const Tensor weights =
      stored_weights(plan, segment_of(plan, node, "weight"), weight_dims(plan, node));
  Tensor gradient = plan.tape.new_tensor(kernel.diff_src_desc());
  plan.tape.add(
      dnnl::inner_product_backward_data(kernel), kernel.scratchpad_desc(),
      {{DNNL_ARG_DIFF_DST, output_gradient(plan, node, step.reads[0], kernel.diff_dst_desc())},
       {DNNL_ARG_WEIGHTS, converted(plan, weights, kernel.weights_desc())},
       {DNNL_ARG_DIFF_SRC, gradient}});
  const Dims matrix = dense_source_dims(input);
  if (matrix.size() == 2) {  // back to the four dimensions of an edge
    gradient = converted(plan, gradient, plain(matrix, type_of(gradient.desc)));
    gradient = plan.tape.view(plain(to_dims(input), type_of(gradient.desc)), gradient.buffer);
  }
  deliver(plan, step.writes[0], gradient);
}

}  // namespace coxswain::backend::onednn
