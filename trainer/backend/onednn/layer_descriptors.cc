#include "trainer/backend/onednn/layer_descriptors.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "trainer/backend/onednn/weight_layouts.h"
#include "trainer/contract/error.h"

namespace coxswain::backend::onednn {

namespace {

using graph::Node;
using graph::Program;
using graph::StepKind;

Desc any(const Dims& dims, Type type) { return {dims, type, Tag::any}; }

const Node& node_of(const Program& program, int index) {
  return program.graph.nodes[static_cast<std::size_t>(index)];
}

bool has_step(const Program& program, int node, StepKind kind) {
  return std::ranges::any_of(program.steps, [&](const graph::Step& step) {
    return step.node == node && step.kind == kind;
  });
}

template <typename Kernel>
bool is_slow(const Kernel& kernel) {
  const std::string_view name = kernel.impl_info_str();
  return name.find("ref") != name.npos || name.find("gemm") != name.npos;
}

template <typename Kernel>
bool is_reference(const Kernel& kernel) {
  return std::string_view(kernel.impl_info_str()).find("ref") != std::string_view::npos;
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

// The tensors of a convolution, their inner orders left to oneDNN.
LayerDescs conv_descs(const Node& node, const tensor::Shape& input, Type type, Type weights_type) {
  const Dims weights{node.channels, input.c, node.kernel, node.kernel};
  const Desc bias = node.bias ? plain({node.channels}, Type::f32) : Desc();
  return {any(to_dims(input), type), any(weights, weights_type), bias,
          any(to_dims(node.shape), type)};
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

ConvKernels make_kernels(const ConvCase& c, Type type, dnnl::algorithm algorithm) {
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

}  // namespace

Type to_type(tensor::DataType type) {
  return type == tensor::DataType::kFloat32 ? Type::f32 : Type::bf16;
}

Dims to_dims(const tensor::Shape& shape) { return {shape.n, shape.c, shape.h, shape.w}; }

Type compute_type(const Program& program) {
  const bool narrow = std::ranges::any_of(program.edges, [](const graph::Edge& edge) {
    return edge.type == tensor::DataType::kBFloat16;
  });
  return narrow ? Type::bf16 : Type::f32;
}

Dims dense_source_dims(const tensor::Shape& input) {
  if (input.h == 1 && input.w == 1) return {input.n, input.c};
  return to_dims(input);
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

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

Window window_of(const Node& node) {
  const Dims pad{node.pad, node.pad};
  return {.kernel = {node.kernel, node.kernel},
          .strides = {node.stride, node.stride},
          .pad_low = pad,
          .pad_high = pad};
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

std::optional<LanesConvolution> lanes_convolution(const Program& program, int index) {
  const Node& node = node_of(program, index);
  const tensor::Shape& input = node_of(program, node.inputs[0]).shape;
  const Type type = compute_type(program);
  const auto in_lanes = [&](const Node& reader) {
    return reader.op == graph::Op::kMaxPool && reader.pad == 0 && reader.kernel == reader.stride;
  };
  for (const Node& reader : program.graph.nodes) {
    if (std::ranges::count(reader.inputs, index) > 0 && !in_lanes(reader)) return std::nullopt;
  }
  const bool shape = node.stride == 1 && node.pad == 0 && (node.kernel == 3 || node.kernel == 5) &&
                     node.channels % 16 != 0 && to_type(node.type) == type;
  const tensor::DataType data =
      type == Type::f32 ? tensor::DataType::kFloat32 : tensor::DataType::kBFloat16;
  // Tanh is a pass of its own, over values that bf16 would have rounded already.
  const bool rounds_twice = node.activation == graph::Activation::kTanh && type == Type::bf16;
  if (!shape || rounds_twice || !lanes_supported(data)) return std::nullopt;
  return LanesConvolution{.blocks = (input.n + lanes_of(data) - 1) / lanes_of(data),
                          .in_channels = input.c,
                          .in_height = input.h,
                          .in_width = input.w,
                          .channels = node.channels,
                          .kernel = node.kernel};
}

ConvKernels make_conv_kernels(const dnnl::engine& engine, const LayerSetting& setting) {
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
  const bool winograd = setting.winograd && type == Type::f32 && node.kernel == 3 &&
                        node.stride == 1 && input.c >= 16;
  if (winograd) {
    ConvKernels kernels = make_kernels(c, type, dnnl::algorithm::convolution_auto);
    if (!uses_reference(kernels)) return kernels;
  }
  return make_kernels(c, type, dnnl::algorithm::convolution_direct);
}

DenseKernels make_dense_kernels(const dnnl::engine& engine, const LayerSetting& setting) {
  const Program& program = *setting.program;
  const Node& node = node_of(program, setting.node);
  const Type type = compute_type(program);
  const Dims source = dense_source_dims(node_of(program, node.inputs[0]).shape);
  Dims weights = source;
  weights[0] = node.channels;
  const Desc bias = node.bias ? plain({node.channels}, Type::f32) : Desc();
  const Dims output{node.shape.n, node.channels};
  const auto kind =
      program.training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;

  DenseKernels result;
  LayerDescs descs{any(source, type), any(weights, type), bias, plain(output, to_type(node.type))};
  result.forward = dense_forward(engine, kind, descs, with_activation(node.activation));
  if (!program.training) return result;
  LayerDescs gradient{result.forward.src_desc(), any(weights, Type::f32), bias,
                      plain(output, type)};
  result.weights = dense_weights(engine, gradient, result.forward, user_scratchpad());
  if (!has_step(program, setting.node, StepKind::kBackwardData)) return result;
  // A gemm takes transposed weights as they are, which saves a reorder of them all in every step.
  const bool gemm =
      std::string_view(result.forward.impl_info_str()).find("gemm:jit") != std::string_view::npos;
  const Desc data_weights = gemm ? result.forward.weights_desc() : any(weights, type);
  result.data = dense_data(engine, {any(source, type), data_weights, bias, plain(output, type)},
                           result.forward, user_scratchpad());
  return result;
}

}  // namespace coxswain::backend::onednn
