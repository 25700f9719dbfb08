#pragma once

#include <span>

#include "trainer/backend/onednn/lanes_convolution.h"

// The two element types' kernels: each does the items [begin, end) of a list, so that threads share
// it.
namespace coxswain::backend::onednn {

constexpr int kTileBlocks = 4;  // float32 vectors of images in one tile
constexpr int kGroup = 5;       // channels of which a tile keeps sums at once: 20 registers

constexpr std::int64_t groups_of(std::int64_t channels) { return (channels + kGroup - 1) / kGroup; }

struct LanesForward {
  LanesConvolution conv;
  const void* x;
  std::span<const std::int64_t> taps;  // bf16
  const void* weights;                 // packed
  const float* bias;                   // null: none
  bool relu;
  void* y;
};

struct LanesData {
  LanesConvolution conv;
  const void* d_y;
  const void* weights;  // packed
  void* d_x;
};

struct LanesWeights {
  LanesConvolution conv;
  const void* x;
  const void* d_y;
  float* d_weights;  // canonical
};

namespace lanes_float {
// [group][c][r][s][kGroup]
void pack_forward(const LanesConvolution& conv, const float* weights, float* packed);
// [group of c][k][r][s][kGroup]
void pack_data(const LanesConvolution& conv, const float* weights, float* packed);
void forward(const LanesForward& job, std::int64_t begin, std::int64_t end);  // tile x output row
void backward_data(const LanesData& job, std::int64_t begin, std::int64_t end);  // tile x input row
void backward_weights(const LanesWeights& job, std::int64_t begin,
                      std::int64_t end);  // group x c x r
void backward_bias(const LanesWeights& job, float* d_bias, std::int64_t begin,
                   std::int64_t end);  // k
}  // namespace lanes_float

namespace lanes_bfloat16 {
// [group][pair of (c, r, s)][kGroup][2]
void pack_forward(const LanesConvolution& conv, const float* weights, std::uint16_t* packed);
// [group of c][pair of k][r][s][kGroup][2]
void pack_data(const LanesConvolution& conv, const float* weights, std::uint16_t* packed);
void forward(const LanesForward& job, std::int64_t begin, std::int64_t end);
void backward_data(const LanesData& job, std::int64_t begin, std::int64_t end);
void backward_weights(const LanesWeights& job, std::int64_t begin, std::int64_t end);
void backward_bias(const LanesWeights& job, float* d_bias, std::int64_t begin, std::int64_t end);
}  // namespace lanes_bfloat16

}  // namespace coxswain::backend::onednn
