#pragma once

#include <algorithm>
#include <cstdint>

#include "trainer/backend/onednn/lanes_kernels.h"

// The loops of both element types, over the vectors of T: for lanes_float.cc and lanes_bfloat16.cc,
// which set the instructions that they are compiled for.
//
// T multiplies kDepth neighbours at once: taps of the window (forward), output channels (backward
// data). Packed weights have them side by side, zero where there is none.
namespace coxswain::backend::onednn {

template <typename T, int kBlocks>
void lanes_forward_row(const LanesForward& job, std::int64_t first_block, std::int64_t row) {
  using Element = typename T::Element;
  const LanesConvolution& conv = job.conv;
  const std::int64_t out_plane = conv.out_height() * conv.out_width() * T::kLanes;
  const std::int64_t in_stride = conv.in_channels * conv.in_height * conv.in_width * T::kLanes;
  const std::int64_t out_stride = conv.channels * out_plane;
  const Element* x = static_cast<const Element*>(job.x) + first_block * in_stride +
                     row * conv.in_width * T::kLanes;
  Element* y = static_cast<Element*>(job.y) + first_block * out_stride +
               row * conv.out_width() * T::kLanes;
  const std::int64_t* taps = job.taps.data();
  const std::size_t count = job.taps.size();
  for (std::int64_t column = 0; column < conv.out_width(); ++column, x += T::kLanes) {
    const auto* weights = static_cast<const Element*>(job.weights);
    for (std::int64_t k = 0; k < conv.channels; k += kGroup) {
      typename T::template Sums<kBlocks> sums;
      sums.start(job.bias == nullptr ? nullptr : job.bias + k, conv.channels - k);
      for (std::size_t tap = 0; tap < count; tap += T::kDepth, weights += T::kDepth * kGroup) {
        sums.accumulate(x + taps[tap], x + taps[tap + T::kDepth - 1], in_stride, weights);
      }
      sums.finish(job.relu, y + k * out_plane + column * T::kLanes, out_stride, out_plane,
                  conv.channels - k);
    }
  }
}

template <typename T, int kBlocks>
void lanes_data_row(const LanesData& job, std::int64_t first_block, std::int64_t row) {
  using Element = typename T::Element;
  const LanesConvolution& conv = job.conv;
  const std::int64_t in_plane = conv.in_height * conv.in_width * T::kLanes;
  const std::int64_t out_plane = conv.out_height() * conv.out_width() * T::kLanes;
  const std::int64_t in_stride = conv.in_channels * in_plane;
  const std::int64_t out_stride = conv.channels * out_plane;
  const Element* d_y = static_cast<const Element*>(job.d_y) + first_block * out_stride;
  Element* d_x = static_cast<Element*>(job.d_x) + first_block * in_stride +
                 row * conv.in_width * T::kLanes;
  const std::int64_t first_r = std::max<std::int64_t>(0, row - conv.out_height() + 1);
  const std::int64_t last_r = std::min(conv.kernel, row + 1);
  const std::int64_t steps = (conv.channels + T::kDepth - 1) / T::kDepth;
  for (std::int64_t column = 0; column < conv.in_width; ++column) {
    const std::int64_t first_s = std::max<std::int64_t>(0, column - conv.out_width() + 1);
    const std::int64_t last_s = std::min(conv.kernel, column + 1);
    for (std::int64_t c = 0; c < conv.in_channels; c += kGroup) {
      typename T::template Sums<kBlocks> sums;
      sums.start(nullptr, 0);
      for (std::int64_t step = 0; step < steps; ++step) {
        const std::int64_t k = step * T::kDepth;
        const std::int64_t second = k + 1 < conv.channels ? out_plane : 0;
        for (std::int64_t r = first_r; r < last_r; ++r) {
          const std::int64_t cell = ((c / kGroup * steps + step) * conv.kernel + r) * conv.kernel;
          const Element* weights =
              static_cast<const Element*>(job.weights) + (cell + first_s) * T::kDepth * kGroup;
          const Element* from =
              d_y + k * out_plane + ((row - r) * conv.out_width() + column - first_s) * T::kLanes;
          for (std::int64_t s = first_s; s < last_s;
               ++s, weights += T::kDepth * kGroup, from -= T::kLanes) {
            sums.accumulate(from, from + second, out_stride, weights);
          }
        }
      }
      sums.finish(false, d_x + c * in_plane + column * T::kLanes, in_stride, in_plane,
                  conv.in_channels - c);
    }
  }
}

// d_weights[k .. k + kCount)[c][r][0 .. kCells): sums over images and positions.
template <typename T, int kCells, int kCount>
void lanes_weights_cells(const LanesWeights& job, std::int64_t k, std::int64_t c, std::int64_t r) {
  using Element = typename T::Element;
  const LanesConvolution& conv = job.conv;
  const std::int64_t in_plane = conv.in_height * conv.in_width * T::kLanes;
  const std::int64_t out_plane = conv.out_height() * conv.out_width() * T::kLanes;
  __m512 sums[kCount][kCells];
  for (auto& row : sums) {
    for (auto& sum : row) sum = _mm512_setzero_ps();
  }
  for (std::int64_t block = 0; block < conv.blocks; ++block) {
    const Element* x = static_cast<const Element*>(job.x) +
                       (block * conv.in_channels + c) * in_plane + r * conv.in_width * T::kLanes;
    const Element* d_y =
        static_cast<const Element*>(job.d_y) + (block * conv.channels + k) * out_plane;
    for (std::int64_t row = 0; row < conv.out_height(); ++row) {
      const Element* from = x + row * conv.in_width * T::kLanes;
      for (std::int64_t column = 0; column < conv.out_width();
           ++column, from += T::kLanes, d_y += T::kLanes) {
        typename T::Vector gradient[kCount];
        for (int q = 0; q < kCount; ++q) gradient[q] = T::load(d_y + q * out_plane);
        for (int s = 0; s < kCells; ++s) {
          const typename T::Vector image = T::load(from + s * T::kLanes);
          for (int q = 0; q < kCount; ++q) {
            sums[q][s] = T::multiply_add(sums[q][s], image, gradient[q]);
          }
        }
      }
    }
  }
  for (int q = 0; q < kCount; ++q) {
    float* to = job.d_weights + (((k + q) * conv.in_channels + c) * kCells + r) * kCells;
    for (int s = 0; s < kCells; ++s) to[s] = _mm512_reduce_add_ps(sums[q][s]);
  }
}

template <typename T, int kCells>
void lanes_weights_group(const LanesWeights& job, std::int64_t k, std::int64_t c, std::int64_t r) {
  switch (std::min<std::int64_t>(kGroup, job.conv.channels - k)) {
    case 5:
      return lanes_weights_cells<T, kCells, 5>(job, k, c, r);
    case 4:
      return lanes_weights_cells<T, kCells, 4>(job, k, c, r);
    case 3:
      return lanes_weights_cells<T, kCells, 3>(job, k, c, r);
    case 2:
      return lanes_weights_cells<T, kCells, 2>(job, k, c, r);
    default:
      return lanes_weights_cells<T, kCells, 1>(job, k, c, r);
  }
}

template <typename T, int kBlocks = T::kTileBlocks>
void lanes_forward_tile(const LanesForward& job, std::int64_t block, std::int64_t row) {
  if constexpr (kBlocks > 1) {
    if (job.conv.blocks - block < kBlocks) {
      return lanes_forward_tile<T, kBlocks - 1>(job, block, row);
    }
  }
  lanes_forward_row<T, kBlocks>(job, block, row);
}

template <typename T, int kBlocks = T::kTileBlocks>
void lanes_data_tile(const LanesData& job, std::int64_t block, std::int64_t row) {
  if constexpr (kBlocks > 1) {
    if (job.conv.blocks - block < kBlocks) {
      return lanes_data_tile<T, kBlocks - 1>(job, block, row);
    }
  }
  lanes_data_row<T, kBlocks>(job, block, row);
}

template <typename T>
void lanes_forward_items(const LanesForward& job, std::int64_t begin, std::int64_t end) {
  const std::int64_t rows = job.conv.out_height();
  for (std::int64_t item = begin; item < end; ++item) {
    lanes_forward_tile<T>(job, item / rows * T::kTileBlocks, item % rows);
  }
}

template <typename T>
void lanes_data_items(const LanesData& job, std::int64_t begin, std::int64_t end) {
  const std::int64_t rows = job.conv.in_height;
  for (std::int64_t item = begin; item < end; ++item) {
    lanes_data_tile<T>(job, item / rows * T::kTileBlocks, item % rows);
  }
}

template <typename T>
void lanes_weights_items(const LanesWeights& job, std::int64_t begin, std::int64_t end) {
  const LanesConvolution& conv = job.conv;
  for (std::int64_t item = begin; item < end; ++item) {
    const std::int64_t r = item % conv.kernel;
    const std::int64_t c = item / conv.kernel % conv.in_channels;
    const std::int64_t k = item / conv.kernel / conv.in_channels * kGroup;
    if (conv.kernel == 5) {
      lanes_weights_group<T, 5>(job, k, c, r);
    } else {
      lanes_weights_group<T, 3>(job, k, c, r);
    }
  }
}

template <typename T>
void lanes_bias_items(const LanesWeights& job, float* d_bias, std::int64_t begin,
                      std::int64_t end) {
  using Element = typename T::Element;
  const LanesConvolution& conv = job.conv;
  const std::int64_t plane = conv.out_height() * conv.out_width() * T::kLanes;
  for (std::int64_t k = begin; k < end; ++k) {
    __m512 sums[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(),
                      _mm512_setzero_ps()};
    for (std::int64_t block = 0; block < conv.blocks; ++block) {
      const Element* d_y =
          static_cast<const Element*>(job.d_y) + (block * conv.channels + k) * plane;
      for (std::int64_t i = 0; i < plane; i += T::kLanes) {
        __m512& sum = sums[i / T::kLanes % 4];
        sum = T::add(sum, T::load(d_y + i));
      }
    }
    d_bias[k] = _mm512_reduce_add_ps(
        _mm512_add_ps(_mm512_add_ps(sums[0], sums[1]), _mm512_add_ps(sums[2], sums[3])));
  }
}

// [group][kDepth taps (c, r, s)][kGroup][kDepth]
template <typename T>
void lanes_pack_forward(const LanesConvolution& conv, const float* weights, void* packed) {
  using Element = typename T::Element;
  const std::int64_t taps = conv.in_channels * conv.kernel * conv.kernel;
  const std::int64_t padded = (taps + T::kDepth - 1) / T::kDepth * T::kDepth;
  for (std::int64_t k = 0; k < groups_of(conv.channels) * kGroup; ++k) {
    Element* to =
        static_cast<Element*>(packed) + k / kGroup * padded * kGroup + k % kGroup * T::kDepth;
    for (std::int64_t tap = 0; tap < padded; ++tap) {
      const bool real = k < conv.channels && tap < taps;
      to[tap / T::kDepth * T::kDepth * kGroup + tap % T::kDepth] =
          T::rounded(real ? weights[k * taps + tap] : 0.F);
    }
  }
}

// [group of c][kDepth of k][r][s][kGroup][kDepth]
template <typename T>
void lanes_pack_data(const LanesConvolution& conv, const float* weights, void* packed) {
  using Element = typename T::Element;
  const std::int64_t cells = conv.kernel * conv.kernel;
  const std::int64_t padded = (conv.channels + T::kDepth - 1) / T::kDepth * T::kDepth;
  for (std::int64_t c = 0; c < groups_of(conv.in_channels) * kGroup; ++c) {
    for (std::int64_t k = 0; k < padded; ++k) {
      const bool real = c < conv.in_channels && k < conv.channels;
      Element* to = static_cast<Element*>(packed) +
                    (c / kGroup * padded + k / T::kDepth * T::kDepth) * cells * kGroup +
                    c % kGroup * T::kDepth + k % T::kDepth;
      for (std::int64_t cell = 0; cell < cells; ++cell) {
        to[cell * T::kDepth * kGroup] =
            T::rounded(real ? weights[(k * conv.in_channels + c) * cells + cell] : 0.F);
      }
    }
  }
}

template <typename T>
constexpr LanesKernels kLanesKernels{
    .tile_blocks = T::kTileBlocks,
    .pack_forward = lanes_pack_forward<T>,
    .pack_data = lanes_pack_data<T>,
    .forward = lanes_forward_items<T>,
    .backward_data = lanes_data_items<T>,
    .backward_weights = lanes_weights_items<T>,
    .backward_bias = lanes_bias_items<T>,
};

}  // namespace coxswain::backend::onednn
