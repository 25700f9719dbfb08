#pragma once

#include <span>

#include "trainer/backend/onednn/lanes_convolution.h"

// The loops over vectors, for each element type.
namespace coxswain::backend::onednn {

constexpr int kGroup = 5;  // channels of which a tile keeps sums at once: 20 registers

constexpr std::int64_t groups_of(std::int64_t channels) { return (channels + kGroup - 1) / kGroup; }

struct LanesForward {
  LanesConvolution conv;
  const void* x;
  std::span<const std::int64_t> taps;
  const void* weights;  // packed
  const float* bias;    // null: none
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

// Value. Each does the items [begin, end) of a list, so that threads share it.
struct LanesKernels {
  int tile_blocks;  // blocks of images in one tile
  void (*pack_forward)(const LanesConvolution& conv, const float* weights, void* packed);
  void (*pack_data)(const LanesConvolution& conv, const float* weights, void* packed);
  // tile x output row
  void (*forward)(const LanesForward& job, std::int64_t begin, std::int64_t end);
  // tile x input row
  void (*backward_data)(const LanesData& job, std::int64_t begin, std::int64_t end);
  // group x c x r
  void (*backward_weights)(const LanesWeights& job, std::int64_t begin, std::int64_t end);
  // k
  void (*backward_bias)(const LanesWeights& job, float* d_bias, std::int64_t begin,
                        std::int64_t end);
};

extern const LanesKernels kFloatLanes;
extern const LanesKernels kBfloat16Lanes;

}  // namespace coxswain::backend::onednn
