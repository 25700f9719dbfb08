#include <immintrin.h>

#include <algorithm>

#include "trainer/backend/onednn/lanes_kernels.h"

// vdpbf16ps adds the products of two neighbours: two taps of the window (forward), two output
// channels (backward data), or two images (backward weights). Weights and x of the first two are
// interleaved in 32-bit lanes; a block of 32 images then is two vectors of sums, whose images lie
// as unpack left them.
namespace coxswain::backend::onednn::lanes_bfloat16 {

namespace {

constexpr std::int64_t kLanes = 32;
using Bits = std::uint16_t;

template <int kBlocks>
struct Sums {
  __m512 low[kGroup][kBlocks];
  __m512 high[kGroup][kBlocks];
};

[[gnu::target("avx512f,avx512bw,avx512bf16"), gnu::always_inline]] inline __m512 multiply_add(
    __m512 sum, __m512i a, __m512i b) {
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
}

template <int kBlocks>
[[gnu::target("avx512f,avx512bw,avx512bf16"), gnu::always_inline]] inline void start(
    Sums<kBlocks>& sums, const float* bias, std::int64_t count) {
  for (int q = 0; q < kGroup; ++q) {
    const __m512 value = _mm512_set1_ps(bias != nullptr && q < count ? bias[q] : 0.F);
    for (int z = 0; z < kBlocks; ++z) sums.low[q][z] = sums.high[q][z] = value;
  }
}

// sums[q] += weights[q][0] * first + weights[q][1] * second.
template <int kBlocks>
[[gnu::target("avx512f,avx512bw,avx512bf16"), gnu::always_inline]] inline void accumulate(
    Sums<kBlocks>& sums, const Bits* first, const Bits* second, std::int64_t stride,
    const Bits* weights) {
  __m512i low[kBlocks];
  __m512i high[kBlocks];
  for (int z = 0; z < kBlocks; ++z) {
    const __m512i a = _mm512_loadu_si512(first + z * stride);
    const __m512i b = _mm512_loadu_si512(second + z * stride);
    low[z] = _mm512_unpacklo_epi16(a, b);
    high[z] = _mm512_unpackhi_epi16(a, b);
  }
  const auto* pairs = reinterpret_cast<const int*>(weights);
  for (int q = 0; q < kGroup; ++q) {
    const __m512i pair = _mm512_set1_epi32(pairs[q]);
    for (int z = 0; z < kBlocks; ++z) {
      sums.low[q][z] = multiply_add(sums.low[q][z], low[z], pair);
      sums.high[q][z] = multiply_add(sums.high[q][z], high[z], pair);
    }
  }
}

template <int kBlocks>
[[gnu::target("avx512f,avx512bw,avx512bf16"), gnu::always_inline]] inline void finish(
    const Sums<kBlocks>& sums, bool relu, Bits* y, std::int64_t stride, std::int64_t plane,
    std::int64_t count) {
  const __m512 zero = _mm512_setzero_ps();
  const __m512i in_order =
      _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);  // undoes unpack: four images each
  for (int q = 0; q < kGroup; ++q) {
    if (q >= count) break;
    for (int z = 0; z < kBlocks; ++z) {
      __m512 low = sums.low[q][z];
      __m512 high = sums.high[q][z];
      if (relu) low = _mm512_max_ps(zero, low);
      if (relu) high = _mm512_max_ps(zero, high);
      const auto both = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
      _mm512_storeu_si512(y + q * plane + z * stride, _mm512_permutexvar_epi64(in_order, both));
    }
  }
}

template <int kBlocks>
[[gnu::target("avx512f,avx512bw,avx512bf16")]] void forward_row(const LanesForward& job,
                                                                std::int64_t first_block,
                                                                std::int64_t row) {
  const LanesConvolution& conv = job.conv;
  const std::int64_t out_plane = conv.out_height() * conv.out_width() * kLanes;
  const std::int64_t in_stride = conv.in_channels * conv.in_height * conv.in_width * kLanes;
  const std::int64_t out_stride = conv.channels * out_plane;
  const Bits* x =
      static_cast<const Bits*>(job.x) + first_block * in_stride + row * conv.in_width * kLanes;
  Bits* y = static_cast<Bits*>(job.y) + first_block * out_stride + row * conv.out_width() * kLanes;
  const std::span<const std::int64_t> taps = job.taps;
  for (std::int64_t column = 0; column < conv.out_width(); ++column, x += kLanes) {
    const auto* weights = static_cast<const Bits*>(job.weights);
    for (std::int64_t k = 0; k < conv.channels; k += kGroup) {
      Sums<kBlocks> sums;
      start(sums, job.bias == nullptr ? nullptr : job.bias + k, conv.channels - k);
      for (std::size_t tap = 0; tap < taps.size(); tap += 2, weights += 2 * kGroup) {
        accumulate(sums, x + taps[tap], x + taps[tap + 1], in_stride, weights);
      }
      finish(sums, job.relu, y + k * out_plane + column * kLanes, out_stride, out_plane,
             conv.channels - k);
    }
  }
}

template <int kBlocks>
[[gnu::target("avx512f,avx512bw,avx512bf16")]] void data_row(const LanesData& job,
                                                             std::int64_t first_block,
                                                             std::int64_t row) {
  const LanesConvolution& conv = job.conv;
  const std::int64_t in_plane = conv.in_height * conv.in_width * kLanes;
  const std::int64_t out_plane = conv.out_height() * conv.out_width() * kLanes;
  const std::int64_t in_stride = conv.in_channels * in_plane;
  const std::int64_t out_stride = conv.channels * out_plane;
  const Bits* d_y = static_cast<const Bits*>(job.d_y) + first_block * out_stride;
  Bits* d_x = static_cast<Bits*>(job.d_x) + first_block * in_stride + row * conv.in_width * kLanes;
  const std::int64_t first_r = std::max<std::int64_t>(0, row - conv.out_height() + 1);
  const std::int64_t last_r = std::min(conv.kernel, row + 1);
  const std::int64_t pairs = (conv.channels + 1) / 2;
  for (std::int64_t column = 0; column < conv.in_width; ++column) {
    const std::int64_t first_s = std::max<std::int64_t>(0, column - conv.out_width() + 1);
    const std::int64_t last_s = std::min(conv.kernel, column + 1);
    for (std::int64_t c = 0; c < conv.in_channels; c += kGroup) {
      Sums<kBlocks> sums;
      start(sums, nullptr, 0);
      for (std::int64_t pair = 0; pair < pairs; ++pair) {
        const std::int64_t second = 2 * pair + 1 < conv.channels ? out_plane : 0;
        for (std::int64_t r = first_r; r < last_r; ++r) {
          const std::int64_t cell = ((c / kGroup * pairs + pair) * conv.kernel + r) * conv.kernel;
          const Bits* weights =
              static_cast<const Bits*>(job.weights) + (cell + first_s) * 2 * kGroup;
          const Bits* from = d_y + 2 * pair * out_plane +
                             ((row - r) * conv.out_width() + column - first_s) * kLanes;
          for (std::int64_t s = first_s; s < last_s; ++s, weights += 2 * kGroup, from -= kLanes) {
            accumulate(sums, from, from + second, out_stride, weights);
          }
        }
      }
      finish(sums, false, d_x + c * in_plane + column * kLanes, in_stride, in_plane,
             conv.in_channels - c);
    }
  }
}

template <int kCells, int kCount>
[[gnu::target("avx512f,avx512bw,avx512bf16")]] void weights_cells(const LanesWeights& job,
                                                                  std::int64_t k, std::int64_t c,
                                                                  std::int64_t r) {
  const LanesConvolution& conv = job.conv;
  const std::int64_t in_plane = conv.in_height * conv.in_width * kLanes;
  const std::int64_t out_plane = conv.out_height() * conv.out_width() * kLanes;
  __m512 sums[kCount][kCells];
  for (auto& row : sums) {
    for (auto& sum : row) sum = _mm512_setzero_ps();
  }
  for (std::int64_t block = 0; block < conv.blocks; ++block) {
    const Bits* x = static_cast<const Bits*>(job.x) + (block * conv.in_channels + c) * in_plane +
                    r * conv.in_width * kLanes;
    const Bits* d_y = static_cast<const Bits*>(job.d_y) + (block * conv.channels + k) * out_plane;
    for (std::int64_t row = 0; row < conv.out_height(); ++row) {
      const Bits* from = x + row * conv.in_width * kLanes;
      for (std::int64_t column = 0; column < conv.out_width();
           ++column, from += kLanes, d_y += kLanes) {
        __m512i gradient[kCount];
        for (int q = 0; q < kCount; ++q) gradient[q] = _mm512_loadu_si512(d_y + q * out_plane);
        for (int s = 0; s < kCells; ++s) {
          const __m512i image = _mm512_loadu_si512(from + s * kLanes);
          for (int q = 0; q < kCount; ++q)
            sums[q][s] = multiply_add(sums[q][s], image, gradient[q]);
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

Bits rounded(float value) { return tensor::to_bfloat16(value); }

}  // namespace

void pack_forward(const LanesConvolution& conv, const float* weights, Bits* packed) {
  const std::int64_t taps = conv.in_channels * conv.kernel * conv.kernel;
  const std::int64_t even = (taps + 1) / 2 * 2;
  for (std::int64_t k = 0; k < groups_of(conv.channels) * kGroup; ++k) {
    Bits* to = packed + k / kGroup * even * kGroup + 2 * (k % kGroup);
    for (std::int64_t tap = 0; tap < even; ++tap) {
      const bool real = k < conv.channels && tap < taps;
      to[tap / 2 * 2 * kGroup + tap % 2] = real ? rounded(weights[k * taps + tap]) : Bits{0};
    }
  }
}

void pack_data(const LanesConvolution& conv, const float* weights, Bits* packed) {
  const std::int64_t cells = conv.kernel * conv.kernel;
  const std::int64_t even = (conv.channels + 1) / 2 * 2;
  for (std::int64_t c = 0; c < groups_of(conv.in_channels) * kGroup; ++c) {
    for (std::int64_t k = 0; k < even; ++k) {
      const bool real = c < conv.in_channels && k < conv.channels;
      Bits* to =
          packed + (c / kGroup * even + k / 2 * 2) * cells * kGroup + 2 * (c % kGroup) + k % 2;
      for (std::int64_t cell = 0; cell < cells; ++cell) {
        to[cell * 2 * kGroup] =
            real ? rounded(weights[(k * conv.in_channels + c) * cells + cell]) : Bits{0};
      }
    }
  }
}

void forward(const LanesForward& job, std::int64_t begin, std::int64_t end) {
  const std::int64_t rows = job.conv.out_height();
  for (std::int64_t item = begin; item < end; ++item) {
    const std::int64_t block = item / rows * 2;
    if (job.conv.blocks - block >= 2) {
      forward_row<2>(job, block, item % rows);
    } else {
      forward_row<1>(job, block, item % rows);
    }
  }
}

void backward_data(const LanesData& job, std::int64_t begin, std::int64_t end) {
  const std::int64_t rows = job.conv.in_height;
  for (std::int64_t item = begin; item < end; ++item) {
    const std::int64_t block = item / rows * 2;
    if (job.conv.blocks - block >= 2) {
      data_row<2>(job, block, item % rows);
    } else {
      data_row<1>(job, block, item % rows);
    }
  }
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

[[gnu::target("avx512f,avx512bw,avx512bf16")]] void backward_bias(const LanesWeights& job,
                                                                  float* d_bias, std::int64_t begin,
                                                                  std::int64_t end) {
  const LanesConvolution& conv = job.conv;
  const std::int64_t plane = conv.out_height() * conv.out_width() * kLanes;
  const __m512i ones = _mm512_set1_epi16(0x3F80);
  for (std::int64_t k = begin; k < end; ++k) {
    __m512 sums[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(),
                      _mm512_setzero_ps()};
    for (std::int64_t block = 0; block < conv.blocks; ++block) {
      const Bits* d_y = static_cast<const Bits*>(job.d_y) + (block * conv.channels + k) * plane;
      for (std::int64_t i = 0; i < plane; i += kLanes) {
        __m512& sum = sums[i / kLanes % 4];
        sum = multiply_add(sum, _mm512_loadu_si512(d_y + i), ones);
      }
    }
    d_bias[k] = _mm512_reduce_add_ps(
        _mm512_add_ps(_mm512_add_ps(sums[0], sums[1]), _mm512_add_ps(sums[2], sums[3])));
  }
}

}  // namespace coxswain::backend::onednn::lanes_bfloat16
