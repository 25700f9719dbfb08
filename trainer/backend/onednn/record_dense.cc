#include <string_view>

#include "trainer/backend/onednn/operations.h"

namespace coxswain::backend::onednn {

namespace {

// Value. `weights` and `data` exist in training alone.
struct DenseKernels {
  DenseForward forward;
  std::optional<DenseWeights> weights;
  std::optional<DenseData> data;
};

// What a dense layer sees of its input: (N, C) for a 1x1 map, else (N, C, H, W).
Dims source_dims(const tensor::Shape& input) {
  if (input.h == 1 && input.w == 1) return {input.n, input.c};
  return to_dims(input);
}

Dims weight_dims(const Plan& plan, const Node& node) {
  Dims dims = source_dims(plan.input_of(node).shape);
  dims[0] = node.channels;
  return dims;
}

DenseKernels make_kernels(const dnnl::engine& engine, const LayerSetting& setting) {
  const graph::Program& program = *setting.program;
  const Node& node = node_of(program, setting.node);
  const Type type = compute_type(program);
  const Dims source = source_dims(node_of(program, node.inputs[0]).shape);
  Dims weights = source;
  weights[0] = node.channels;
  const Desc bias = node.bias ? plain({node.channels}, Type::f32) : Desc();
  const Dims output{node.shape.n, node.channels};
  const auto kind =
      program.training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;

  DenseKernels result;
  const LayerDescs descs{any_order(source, type), any_order(weights, type), bias,
                         plain(output, to_type(node.type))};
  result.forward = dense_forward(engine, kind, descs, with_activation(node.activation));
  if (!program.training) return result;
  const LayerDescs gradient{result.forward.src_desc(), any_order(weights, Type::f32), bias,
                            plain(output, type)};
  result.weights = dense_weights(engine, gradient, result.forward, user_scratchpad());
  if (!has_step(program, setting.node, StepKind::kBackwardData)) return result;
  // A gemm takes transposed weights as they are, which saves a reorder of them all in every step.
  const bool gemm =
      std::string_view(result.forward.impl_info_str()).find("gemm:jit") != std::string_view::npos;
  const Desc data_weights = gemm ? result.forward.weights_desc() : any_order(weights, type);
  result.data =
      dense_data(engine, {any_order(source, type), data_weights, bias, plain(output, type)},
                 result.forward, user_scratchpad());
  return result;
}

// An edge as a dense kernel wants it: a 1x1 map as the (N, C) matrix that its row-major bytes are.
Tensor as_source(Plan& plan, const Tensor& edge, const tensor::Shape& shape, const Desc& wanted) {
  const Dims matrix = source_dims(shape);
  if (matrix.size() == 4) return converted(plan, edge, wanted);
  const Tensor rows = converted(plan, edge, plain(to_dims(shape), type_of(edge.desc)));
  return converted(plan, plan.tape.view(plain(matrix, type_of(edge.desc)), rows.buffer), wanted);
}

// d(output) as the (N, K) matrix of the given descriptor.
Tensor output_gradient(Plan& plan, const Node& node, int edge, const Desc& wanted) {
  const Tensor rows = converted(plan, plan.edge(edge), plain(to_dims(node.shape), type_of(wanted)));
  return plan.tape.view(wanted, rows.buffer);
}

void forward(Plan& plan, const Step& step) {
  const Node& node = plan.node(step.node);
  const DenseForward& kernel =
      plan.keep(step.node, make_kernels(plan.tape.engine(), {&plan.program, step.node})).forward;
  const tensor::Shape& input = plan.input_of(node).shape;
  const Tensor source = as_source(plan, plan.edge(node.inputs[0]), input, kernel.src_desc());
  const Tensor weights = product_weights(plan, node, weight_dims(plan, node));
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

void backward_weights(Plan& plan, const Step& step) {
  const Node& node = plan.node(step.node);
  const DenseWeights& kernel = *plan.kept_of<DenseKernels>(step.node).weights;
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

void backward_data(Plan& plan, const Step& step) {
  const Node& node = plan.node(step.node);
  const DenseData& kernel = *plan.kept_of<DenseKernels>(step.node).data;
  const tensor::Shape& input = plan.input_of(node).shape;
  const Tensor weights = product_weights(plan, node, weight_dims(plan, node));
  Tensor gradient = plan.tape.new_tensor(kernel.diff_src_desc());
  plan.tape.add(
      dnnl::inner_product_backward_data(kernel), kernel.scratchpad_desc(),
      {{DNNL_ARG_DIFF_DST, output_gradient(plan, node, step.reads[0], kernel.diff_dst_desc())},
       {DNNL_ARG_WEIGHTS, converted(plan, weights, kernel.weights_desc())},
       {DNNL_ARG_DIFF_SRC, gradient}});
  const Dims matrix = source_dims(input);
  if (matrix.size() == 2) {  // back to the four dimensions of an edge
    gradient = converted(plan, gradient, plain(matrix, type_of(gradient.desc)));
    gradient = plan.tape.view(plain(to_dims(input), type_of(gradient.desc)), gradient.buffer);
  }
  deliver(plan, step.writes[0], gradient);
}

std::optional<Desc> weight_order(const dnnl::engine& engine, const LayerSetting& setting) {
  return make_kernels(engine, setting).weights->diff_weights_desc();
}

}  // namespace

const Recorder kDense{.forward = forward,
                      .backward_data = backward_data,
                      .backward_weights = backward_weights,
                      .weight_order = weight_order};

}  // namespace coxswain::backend::onednn
