#include <immintrin.h>

#include <algorithm>

#include "trainer/backend/onednn/lanes_kernels.h"

namespace coxswain::backend::onednn::lanes_float {

namespace {

constexpr std::int64_t kLanes = 16;

// A tile of kBlocks blocks of images; `stride` is the distance of two blocks in floats.
template <int kBlocks>
struct Sums {
  __m512 value[kGroup][kBlocks];
};

template <int kBlocks>
[[gnu::target("avx512f"), gnu::always_inline]] inline void start(Sums<kBlocks>& sums,
                                                                 const float* bias,
                                                                 std::int64_t count) {
  for (int q = 0; q < kGroup; ++q) {
    const float value = bias != nullptr && q < count ? bias[q] : 0.F;
    for (int z = 0; z < kBlocks; ++z) sums.value[q][z] = _mm512_set1_ps(value);
  }
}

// sums[q] += weights[q] * x, for the images of a tile.
template <int kBlocks>
[[gnu::target("avx512f"), gnu::always_inline]] inline void accumulate(Sums<kBlocks>& sums,
                                                                      const float* x,
                                                                      std::int64_t stride,
                                                                      const float* weights) {
  __m512 images[kBlocks];
  for (int z = 0; z < kBlocks; ++z) images[z] = _mm512_loadu_ps(x + z * stride);
  for (int q = 0; q < kGroup; ++q) {
    const __m512 weight = _mm512_set1_ps(weights[q]);
    for (int z = 0; z < kBlocks; ++z) {
      sums.value[q][z] = _mm512_fmadd_ps(weight, images[z], sums.value[q][z]);
    }
  }
}

template <int kBlocks>
[[gnu::target("avx512f"), gnu::always_inline]] inline void finish(const Sums<kBlocks>& sums,
                                                                  bool relu, float* y,
                                                                  std::int64_t stride,
                                                                  std::int64_t plane,
                                                                  std::int64_t count) {
  const __m512 zero = _mm512_setzero_ps();
  for (int q = 0; q < kGroup; ++q) {
    if (q >= count) break;
    for (int z = 0; z < kBlocks; ++z) {
      __m512 value = sums.value[q][z];
      if (relu)
        value = _mm512_max_ps(zero, value);  // of a NaN and zero the NaN, which comes second
      _mm512_storeu_ps(y + q * plane + z * stride, value);
    }
  }
}

template <int kBlocks>
[[gnu::target("avx512f")]] void forward_row(const LanesForward& job, std::int64_t first_block,
                                            std::int64_t row) {
  const LanesConvolution& conv = job.conv;
  const std::int64_t in_plane = conv.in_height * conv.in_width * kLanes;
  const std::int64_t out_plane = conv.out_height() * conv.out_width() * kLanes;
  const std::int64_t in_stride = conv.in_channels * in_plane;
  const std::int64_t out_stride = conv.channels * out_plane;
  const float* x = static_cast<const float*>(job.x) + first_block * in_stride;
  float* y =
      static_cast<float*>(job.y) + first_block * out_stride + row * conv.out_width() * kLanes;
  for (std::int64_t column = 0; column < conv.out_width(); ++column) {
    const auto* weights = static_cast<const float*>(job.weights);
    for (std::int64_t k = 0; k < conv.channels; k += kGroup) {
      Sums<kBlocks> sums;
      start(sums, job.bias == nullptr ? nullptr : job.bias + k, conv.channels - k);
      for (std::int64_t c = 0; c < conv.in_channels; ++c) {
        for (std::int64_t r = 0; r < conv.kernel; ++r) {
          const float* from = x + c * in_plane + ((row + r) * conv.in_width + column) * kLanes;
          for (std::int64_t s = 0; s < conv.kernel; ++s, weights += kGroup) {
            accumulate(sums, from + s * kLanes, in_stride, weights);
          }
        }
      }
      finish(sums, job.relu, y + k * out_plane + column * kLanes, out_stride, out_plane,
             conv.channels - k);
    }
  }
}

template <int kBlocks>
[[gnu::target("avx512f")]] void data_row(const LanesData& job, std::int64_t first_block,
                                         std::int64_t row) {
  const LanesConvolution& conv = job.conv;
  const std::int64_t in_plane = conv.in_height * conv.in_width * kLanes;
  const std::int64_t out_plane = conv.out_height() * conv.out_width() * kLanes;
  const std::int64_t in_stride = conv.in_channels * in_plane;
  const std::int64_t out_stride = conv.channels * out_plane;
  const float* d_y = static_cast<const float*>(job.d_y) + first_block * out_stride;
  float* d_x =
      static_cast<float*>(job.d_x) + first_block * in_stride + row * conv.in_width * kLanes;
  const std::int64_t first_r = std::max<std::int64_t>(0, row - conv.out_height() + 1);
  const std::int64_t last_r = std::min(conv.kernel, row + 1);
  for (std::int64_t column = 0; column < conv.in_width; ++column) {
    const std::int64_t first_s = std::max<std::int64_t>(0, column - conv.out_width() + 1);
    const std::int64_t last_s = std::min(conv.kernel, column + 1);
    for (std::int64_t c = 0; c < conv.in_channels; c += kGroup) {
      Sums<kBlocks> sums;
      start(sums, nullptr, 0);
      for (std::int64_t k = 0; k < conv.channels; ++k) {
        for (std::int64_t r = first_r; r < last_r; ++r) {
          const std::int64_t cell =
              ((c / kGroup * conv.channels + k) * conv.kernel + r) * conv.kernel;
          const float* weights = static_cast<const float*>(job.weights) + (cell + first_s) * kGroup;
          const float* from =
              d_y + k * out_plane + ((row - r) * conv.out_width() + column - first_s) * kLanes;
          for (std::int64_t s = first_s; s < last_s; ++s, weights += kGroup, from -= kLanes) {
            accumulate(sums, from, out_stride, weights);
          }
        }
      }
      finish(sums, false, d_x + c * in_plane + column * kLanes, in_stride, in_plane,
             conv.in_channels - c);
    }
  }
}

// Calls f<blocks of the tile>(job, first block, row) for items of (tile, row).
template <typename Job, typename F4, typename F3, typename F2, typename F1>
void for_tiles(const Job& job, std::int64_t rows, std::int64_t begin, std::int64_t end, F4 four,
               F3 three, F2 two, F1 one) {
  for (std::int64_t item = begin; item < end; ++item) {
    const std::int64_t block = item / rows * kTileBlocks;
    switch (std::min<std::int64_t>(kTileBlocks, job.conv.blocks - block)) {
      case 4:
        four(job, block, item % rows);
        break;
      case 3:
        three(job, block, item % rows);
        break;
      case 2:
        two(job, block, item % rows);
        break;
      default:
        one(job, block, item % rows);
        break;
    }
  }
}

// d_weights[k .. k + kCount)[c][r][0 .. kCells): sums over images and positions.
template <int kCells, int kCount>
[[gnu::target("avx512f")]] void weights_cells(const LanesWeights& job, std::int64_t k,
                                              std::int64_t c, std::int64_t r) {
  const LanesConvolution& conv = job.conv;
  const std::int64_t in_plane = conv.in_height * conv.in_width * kLanes;
  const std::int64_t out_plane = conv.out_height() * conv.out_width() * kLanes;
  __m512 sums[kCount][kCells];
  for (auto& row : sums) {
    for (auto& sum : row) sum = _mm512_setzero_ps();
  }
  for (std::int64_t block = 0; block < conv.blocks; ++block) {
    const float* x = static_cast<const float*>(job.x) + (block * conv.in_channels + c) * in_plane +
                     r * conv.in_width * kLanes;
    const float* d_y = static_cast<const float*>(job.d_y) + (block * conv.channels + k) * out_plane;
    for (std::int64_t row = 0; row < conv.out_height(); ++row) {
      const float* from = x + row * conv.in_width * kLanes;
      for (std::int64_t column = 0; column < conv.out_width();
           ++column, from += kLanes, d_y += kLanes) {
        __m512 gradient[kCount];
        for (int q = 0; q < kCount; ++q) gradient[q] = _mm512_loadu_ps(d_y + q * out_plane);
        for (int s = 0; s < kCells; ++s) {
          const __m512 image = _mm512_loadu_ps(from + s * kLanes);
          for (int q = 0; q < kCount; ++q)
            sums[q][s] = _mm512_fmadd_ps(image, gradient[q], sums[q][s]);
        }
      }
    }
  }
  for (int q = 0; q < kCount; ++q) {
    float* to = job.d_weights + (((k + q) * conv.in_channels + c) * kCells + r) * kCells;
    for (int s = 0; s < kCells; ++s) to[s] = _mm512_reduce_add_ps(sums[q][s]);
  }
}

template <int kCells>
void weights_group(const LanesWeights& job, std::int64_t k, std::int64_t c, std::int64_t r) {
  switch (std::min<std::int64_t>(kGroup, job.conv.channels - k)) {
    case 5:
      return weights_cells<kCells, 5>(job, k, c, r);
    case 4:
      return weights_cells<kCells, 4>(job, k, c, r);
    case 3:
      return weights_cells<kCells, 3>(job, k, c, r);
    case 2:
      return weights_cells<kCells, 2>(job, k, c, r);
    default:
      return weights_cells<kCells, 1>(job, k, c, r);
  }
}

}  // namespace

void pack_forward(const LanesConvolution& conv, const float* weights, float* packed) {
  const std::int64_t taps = conv.in_channels * conv.kernel * conv.kernel;
  for (std::int64_t k = 0; k < groups_of(conv.channels) * kGroup; ++k) {
    float* to = packed + k / kGroup * taps * kGroup + k % kGroup;
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      to[tap * kGroup] = k < conv.channels ? weights[k * taps + tap] : 0.F;
    }
  }
}

void pack_data(const LanesConvolution& conv, const float* weights, float* packed) {
  const std::int64_t cells = conv.kernel * conv.kernel;
  for (std::int64_t c = 0; c < groups_of(conv.in_channels) * kGroup; ++c) {
    for (std::int64_t k = 0; k < conv.channels; ++k) {
      float* to = packed + (c / kGroup * conv.channels + k) * cells * kGroup + c % kGroup;
      for (std::int64_t cell = 0; cell < cells; ++cell) {
        to[cell * kGroup] =
            c < conv.in_channels ? weights[(k * conv.in_channels + c) * cells + cell] : 0.F;
      }
    }
  }
}

void forward(const LanesForward& job, std::int64_t begin, std::int64_t end) {
  for_tiles(job, job.conv.out_height(), begin, end, forward_row<4>, forward_row<3>, forward_row<2>,
            forward_row<1>);
}

void backward_data(const LanesData& job, std::int64_t begin, std::int64_t end) {
  for_tiles(job, job.conv.in_height, begin, end, data_row<4>, data_row<3>, data_row<2>,
            data_row<1>);
}

void backward_weights(const LanesWeights& job, std::int64_t begin, std::int64_t end) {
  const LanesConvolution& conv = job.conv;
  for (std::int64_t item = begin; item < end; ++item) {
    const std::int64_t r = item % conv.kernel;
    const std::int64_t c = item / conv.kernel % conv.in_channels;
    const std::int64_t k = item / conv.kernel / conv.in_channels * kGroup;
    if (conv.kernel == 5) {
      weights_group<5>(job, k, c, r);
    } else {
      weights_group<3>(job, k, c, r);
    }
  }
}

[[gnu::target("avx512f")]] void backward_bias(const LanesWeights& job, float* d_bias,
                                              std::int64_t begin, std::int64_t end) {
  const LanesConvolution& conv = job.conv;
  const std::int64_t plane = conv.out_height() * conv.out_width() * kLanes;
  for (std::int64_t k = begin; k < end; ++k) {
    __m512 sums[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(),
                      _mm512_setzero_ps()};
    for (std::int64_t block = 0; block < conv.blocks; ++block) {
      const float* d_y = static_cast<const float*>(job.d_y) + (block * conv.channels + k) * plane;
      for (std::int64_t i = 0; i < plane; i += kLanes) {
        __m512& sum = sums[i / kLanes % 4];
        sum = _mm512_add_ps(sum, _mm512_loadu_ps(d_y + i));
      }
    }
    d_bias[k] = _mm512_reduce_add_ps(
        _mm512_add_ps(_mm512_add_ps(sums[0], sums[1]), _mm512_add_ps(sums[2], sums[3])));
  }
}

}  // namespace coxswain::backend::onednn::lanes_float
