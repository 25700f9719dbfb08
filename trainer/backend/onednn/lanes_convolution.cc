#include "trainer/backend/onednn/lanes_convolution.h"

#include "trainer/backend/onednn/lanes_kernels.h"
#include "trainer/backend/onednn/vector_isa.h"

namespace coxswain::backend::onednn {

namespace {

using tensor::DataType;

const LanesKernels& kernels_of(DataType type) {
  return type == DataType::kFloat32 ? kFloatLanes : kBfloat16Lanes;
}

std::int64_t tiles(const LanesConvolution& conv, const LanesKernels& kernels) {
  return (conv.blocks + kernels.tile_blocks - 1) / kernels.tile_blocks;
}

}  // namespace

bool lanes_supported(DataType type) {
  if (type == DataType::kFloat32) return has_isa(dnnl::cpu_isa::avx512_core);
  return has_isa(dnnl::cpu_isa::avx512_core_bf16);
}

std::int64_t lanes_packed_bytes(const LanesConvolution& conv) {
  const std::int64_t cells = conv.kernel * conv.kernel + 1;
  const std::int64_t forward = groups_of(conv.channels) * conv.in_channels;
  const std::int64_t data = groups_of(conv.in_channels) * (conv.channels + 1);
  return std::max(forward, data) * cells * kGroup * 4;
}

std::vector<std::int64_t> lanes_taps(const LanesConvolution& conv, DataType type) {
  std::vector<std::int64_t> offsets;
  for (std::int64_t c = 0; c < conv.in_channels; ++c) {
    for (std::int64_t r = 0; r < conv.kernel; ++r) {
      for (std::int64_t s = 0; s < conv.kernel; ++s) {
        offsets.push_back(((c * conv.in_height + r) * conv.in_width + s) * lanes_of(type));
      }
    }
  }
  if (type == DataType::kBFloat16 && offsets.size() % 2 == 1) offsets.push_back(offsets.back());
  return offsets;
}

void lanes_forward(const LanesConvolution& conv, DataType type, const void* x,
                   const LanesFilter& filter, void* y) {
  const LanesKernels& kernels = kernels_of(type);
  const LanesForward job{conv, x, filter.taps, filter.packed, filter.bias, filter.relu, y};
  kernels.pack_forward(conv, filter.weights, filter.packed);
  in_parallel(tiles(conv, kernels) * conv.out_height(), 1,
              [&](std::int64_t begin, std::int64_t end) { kernels.forward(job, begin, end); });
}

void lanes_backward_data(const LanesConvolution& conv, DataType type, const void* d_y,
                         const float* weights, void* packed, void* d_x) {
  const LanesKernels& kernels = kernels_of(type);
  const LanesData job{conv, d_y, packed, d_x};
  kernels.pack_data(conv, weights, packed);
  in_parallel(tiles(conv, kernels) * conv.in_height, 1, [&](std::int64_t begin, std::int64_t end) {
    kernels.backward_data(job, begin, end);
  });
}

void lanes_backward_weights(const LanesConvolution& conv, DataType type, const void* x,
                            const void* d_y, float* d_weights, float* d_bias) {
  const LanesKernels& kernels = kernels_of(type);
  const LanesWeights job{conv, x, d_y, d_weights};
  in_parallel(
      groups_of(conv.channels) * conv.in_channels * conv.kernel, 1,
      [&](std::int64_t begin, std::int64_t end) { kernels.backward_weights(job, begin, end); });
  if (d_bias == nullptr) return;
  in_parallel(conv.channels, 1, [&](std::int64_t begin, std::int64_t end) {
    kernels.backward_bias(job, d_bias, begin, end);
  });
}

}  // namespace coxswain::backend::onednn
