#pragma once

#include "trainer/backend/onednn/onednn_backend.h"
#include "trainer/backend/onednn/onednn_compat.h"
#include "trainer/graph/program.h"

namespace coxswain::backend::onednn {

// Value. Which kernels a layer with weights gets; made from the same words by layout() and by
// prepare(), so that both find the same ones.
struct LayerSetting {
  const graph::Program* program = nullptr;
  int node = 0;
  const OneDnnOptions* options = nullptr;
};

// fp16 is kept in float32, rounded by passes of our own: oneDNN does not train in it on a CPU.
Type to_type(tensor::DataType type);
Dims to_dims(const tensor::Shape& shape);

// bfloat16 when any of the program's edges is.
Type compute_type(const graph::Program& program);

// Throws Error: oneDNN has no kernel for a layer on this CPU. In bf16 that is the configuration's
// fault.
[[noreturn]] void refuse_layer(const graph::Program& program, int node, const dnnl::error& error);

const graph::Node& node_of(const graph::Program& program, int index);
bool has_step(const graph::Program& program, int node, graph::StepKind kind);

Desc any_order(const Dims& dims, Type type);  // left to oneDNN
dnnl::primitive_attr user_scratchpad();
dnnl::primitive_attr with_activation(graph::Activation activation);  // as a post-op
Window window_of(const graph::Node& node);

// (K, C, R, S), of more than one group (groups, K/groups, C/groups, R, S): the same bytes where
// they are row-major.
Dims conv_weight_dims(const graph::Node& node, const tensor::Shape& input);

// The order of activations in lanes_convolution.h.
Desc lanes_order(const tensor::Shape& shape, Type type);
bool is_lanes_order(const Desc& desc);
tensor::DataType data_type_of(const Desc& desc);

}  // namespace coxswain::backend::onednn
