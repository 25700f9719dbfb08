#include "trainer/backend/onednn/layer_descriptors.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/contract/error.h"

namespace coxswain::backend::onednn {

using graph::Node;
using graph::Program;

const Node& node_of(const Program& program, int index) {
  return program.graph.nodes[static_cast<std::size_t>(index)];
}

Type to_type(tensor::DataType type) {
  return type == tensor::DataType::kBFloat16 ? Type::bf16 : Type::f32;
}

Dims to_dims(const tensor::Shape& shape) { return {shape.n, shape.c, shape.h, shape.w}; }

Type compute_type(const Program& program) {
  const bool narrow = std::ranges::any_of(program.edges, [](const graph::Edge& edge) {
    return edge.type == tensor::DataType::kBFloat16;
  });
  return narrow ? Type::bf16 : Type::f32;
}

void refuse_layer(const Program& program, int node, const dnnl::error& error) {
  const std::string& name = node_of(program, node).name;
  if (compute_type(program) == Type::bf16) {
    throw Error(
        ExitCode::kBadInput,
        fmt::format("[onednn] layer {}: oneDNN can't compute it in bf16 on this CPU ({}); use "
                    "precision: fp32",
                    name, error.what()));
  }
  throw Error(ExitCode::kInternal,
              fmt::format("[onednn] layer {}: oneDNN can't compute it on this CPU ({})", name,
                          error.what()));
}

bool has_step(const Program& program, int node, graph::StepKind kind) {
  return std::ranges::any_of(program.steps, [&](const graph::Step& step) {
    return step.node == node && step.kind == kind;
  });
}

Desc any_order(const Dims& dims, Type type) { return {dims, type, Tag::any}; }

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

dnnl::primitive_attr with_activation(graph::Activation activation) {
  dnnl::primitive_attr attr = user_scratchpad();
  if (activation == graph::Activation::kNone) return attr;
  dnnl::post_ops operations;
  append_eltwise(operations, activation == graph::Activation::kRelu
                                 ? dnnl::algorithm::eltwise_relu
                                 : dnnl::algorithm::eltwise_tanh);
  attr.set_post_ops(operations);
  return attr;
}

Window window_of(const Node& node) {
  return {.kernel = {node.kernel, node.kernel},
          .strides = {node.stride, node.stride},
          .pad_low = {node.pad, node.pad},
          .pad_high = {node.pad_after(), node.pad_after()}};
}

Dims conv_weight_dims(const Node& node, const tensor::Shape& input) {
  if (node.groups == 1) return {node.channels, input.c, node.kernel, node.kernel};
  return {node.groups, node.channels / node.groups, input.c / node.groups, node.kernel,
          node.kernel};
}

tensor::DataType data_type_of(const Desc& desc) {
  return type_of(desc) == Type::f32 ? tensor::DataType::kFloat32 : tensor::DataType::kBFloat16;
}

Desc lanes_order(const tensor::Shape& shape, Type type) {
  return {to_dims(shape), type, type == Type::f32 ? Tag::Abcd16a : Tag::Abcd32a};
}

bool is_lanes_order(const Desc& desc) {
  const Dims dims = dims_of(desc);
  return dims.size() == 4 &&
         desc == lanes_order({dims[0], dims[1], dims[2], dims[3]}, type_of(desc));
}

}  // namespace coxswain::backend::onednn
