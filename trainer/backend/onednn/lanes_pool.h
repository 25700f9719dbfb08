#pragma once

#include <cstdint>

#include "trainer/tensor/data_type.h"

namespace coxswain::backend::onednn {

// Value. Max-pooling of whole tiles (stride = kernel, no padding) with the batch in the lanes, see
// lanes_convolution.h: planes are blocks x channels.
struct LanesPool {
  std::int64_t planes = 0;
  std::int64_t in_height = 0;
  std::int64_t in_width = 0;
  std::int64_t kernel = 0;

  std::int64_t out_height() const { return in_height / kernel; }
  std::int64_t out_width() const { return in_width / kernel; }
};

// `places` gets, an element of y, the cell of the maximum: of equal values the first, and a NaN
// wins.
void lanes_pool_forward(const LanesPool& pool, tensor::DataType type, const void* x, void* y,
                        std::uint8_t* places);
void lanes_pool_backward(const LanesPool& pool, tensor::DataType type, const void* d_y,
                         const std::uint8_t* places, void* d_x);

}  // namespace coxswain::backend::onednn
