#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/tensor/data_type.h"

// Convolution with the batch in the vector lanes, for channel counts that are no multiple of a
// vector: SINGA's 20 -> 50 5x5 runs at the peak of a core, where oneDNN's kernels, which have
// channels in the lanes, reach half of it. Stride 1, no padding, AVX-512 (bf16: AVX512-BF16).
//
// Activations are [N / lanes][C][H][W][lanes] (Abcd16a in float32, Abcd32a in bf16): lanes beyond
// the batch are zero in gradients and anything finite elsewhere. Weights are canonical float32.
namespace coxswain::backend::onednn {

// Value. x (blocks, C, H, W) -> y (blocks, K, H - R + 1, W - R + 1).
struct LanesConvolution {
  std::int64_t blocks = 0;
  std::int64_t in_channels = 0;
  std::int64_t in_height = 0;
  std::int64_t in_width = 0;
  std::int64_t channels = 0;
  std::int64_t kernel = 0;  // 3 or 5

  std::int64_t out_height() const { return in_height - kernel + 1; }
  std::int64_t out_width() const { return in_width - kernel + 1; }
};

// Whether the instructions are there, and allowed (has_isa).
bool lanes_supported(tensor::DataType type);
constexpr std::int64_t lanes_of(tensor::DataType type) {
  return type == tensor::DataType::kFloat32 ? 16 : 32;
}

// Bytes of the packed weights that forward and backward data take; both are made anew from the
// weights.
std::int64_t lanes_packed_bytes(const LanesConvolution& conv);

// Where each tap of the window lies, from the window's corner, in elements: for lanes_forward. In
// bf16, which takes two at once, an odd count is made even by taking the last tap again, for which
// the packed weight is zero.
std::vector<std::int64_t> lanes_taps(const LanesConvolution& conv, tensor::DataType type);

// What forward takes beside x and y. `bias` may be null.
struct LanesFilter {
  const float* weights = nullptr;
  const float* bias = nullptr;
  std::span<const std::int64_t> taps;
  void* packed = nullptr;
  bool relu = false;
};
void lanes_forward(const LanesConvolution& conv, tensor::DataType type, const void* x,
                   const LanesFilter& filter, void* y);
void lanes_backward_data(const LanesConvolution& conv, tensor::DataType type, const void* d_y,
                         const float* weights, void* packed, void* d_x);
// d_bias may be null.
void lanes_backward_weights(const LanesConvolution& conv, tensor::DataType type, const void* x,
                            const void* d_y, float* d_weights, float* d_bias);

}  // namespace coxswain::backend::onednn
