#pragma once

#include <cstdint>

#include "trainer/tensor/data_type.h"

namespace coxswain::backend::onednn {

// Value. A convolution's shapes, as far as the sums over its input gradient depend on them. Output
// channels are a multiple of 16.
struct TapShape {
  std::int64_t samples = 0;
  std::int64_t channels = 0;  // K
  std::int64_t in_height = 0;
  std::int64_t in_width = 0;
  std::int64_t out_height = 0;
  std::int64_t out_width = 0;
  std::int64_t kernel = 0;  // at most 7
  std::int64_t stride = 1;
  std::int64_t pad = 0;
};

// Partial sums that tap_sums keeps apart, so that their order does not depend on threads.
constexpr std::int64_t kTapChunks = 16;
constexpr std::int64_t kMaxTapKernel = 7;

// sums[k][r][s] (K * kernel^2 doubles): over all images and the outputs whose tap (r, s) lies
// inside the input, of d_y, which is (N, K / 16, H, W, 16). `partial` holds kTapChunks times as
// many.
void tap_sums(const TapShape& shape, tensor::DataType type, const void* d_y, double* partial,
              double* sums);

}  // namespace coxswain::backend::onednn
