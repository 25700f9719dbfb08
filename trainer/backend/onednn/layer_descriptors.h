#pragma once

#include <optional>

#include "trainer/backend/onednn/lanes_convolution.h"
#include "trainer/backend/onednn/onednn_compat.h"
#include "trainer/graph/program.h"

namespace coxswain::backend::onednn {

// Value. Which kernels a convolution or dense layer gets; made from the same words by layout() and
// by prepare(), so that both find the same ones.
struct LayerSetting {
  const graph::Program* program = nullptr;
  int node = 0;
  bool winograd = false;
};

// Value. Kernels of a convolution: the weight gradient may compute in float32 where oneDNN has no
// good bfloat16 kernel. `weights` and `data` exist in training alone.
struct ConvKernels {
  ConvForward forward;
  std::optional<ConvWeights> weights;
  std::optional<ConvData> data;
};

struct DenseKernels {
  DenseForward forward;
  std::optional<DenseWeights> weights;
  std::optional<DenseData> data;
};

Type to_type(tensor::DataType type);
Dims to_dims(const tensor::Shape& shape);

// bfloat16 when any of the program's edges is.
Type compute_type(const graph::Program& program);

// What a dense layer sees of its input: (N, C) for a 1x1 map, else (N, C, H, W).
Dims dense_source_dims(const tensor::Shape& input);

// Throws Error: oneDNN has no kernel for a layer on this CPU. In bf16 that is the configuration's
// fault.
[[noreturn]] void refuse_layer(const graph::Program& program, int node, const dnnl::error& error);

dnnl::primitive_attr user_scratchpad();
Window window_of(const graph::Node& node);

// The convolution as lanes_convolution.h does it, where that is faster than oneDNN: a rule of
// shapes and instructions alone. Its max-pool then runs in the same order.
std::optional<LanesConvolution> lanes_convolution(const graph::Program& program, int node);
Desc lanes_order(const tensor::Shape& shape, Type type);
bool is_lanes_order(const Desc& desc);
tensor::DataType data_type_of(const Desc& desc);

ConvKernels make_conv_kernels(const dnnl::engine& engine, const LayerSetting& setting);
DenseKernels make_dense_kernels(const dnnl::engine& engine, const LayerSetting& setting);

}  // namespace coxswain::backend::onednn
