#include <immintrin.h>

#include <algorithm>

#include "trainer/backend/onednn/lanes_kernels.h"

// From here on alone: what a header of everybody's defines must run on any CPU.
#pragma GCC target("avx512f,avx512bw,avx512bf16")
#include "trainer/backend/onednn/lanes_loops.h"

// vdpbf16ps adds the products of two neighbours: two taps of the window (forward), two output
// channels (backward data), or two images (backward weights). Weights and x of the first two are
// interleaved in 32-bit lanes; a block of 32 images then is two vectors of sums, whose images lie
// as unpack left them.
namespace coxswain::backend::onednn {

namespace {

[[gnu::always_inline]] inline __m512 add_products(__m512 sum, __m512i a, __m512i b) {
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
}

struct Bfloat16 {
  using Element = std::uint16_t;
  using Vector = __m512i;
  static constexpr std::int64_t kLanes = 32;
  static constexpr int kDepth = 2;
  static constexpr int kTileBlocks = 2;

  template <int kBlocks>
  struct Sums {
    __m512 low[kGroup][kBlocks];
    __m512 high[kGroup][kBlocks];

    [[gnu::always_inline]] void start(const float* bias, std::int64_t count) {
      for (int q = 0; q < kGroup; ++q) {
        const __m512 value = _mm512_set1_ps(bias != nullptr && q < count ? bias[q] : 0.F);
        for (int z = 0; z < kBlocks; ++z) low[q][z] = high[q][z] = value;
      }
    }

    // sums[q] += weights[q][0] * first + weights[q][1] * second
    [[gnu::always_inline]] void accumulate(const Element* first, const Element* second,
                                           std::int64_t stride, const Element* weights) {
      __m512i low_images[kBlocks];
      __m512i high_images[kBlocks];
      for (int z = 0; z < kBlocks; ++z) {
        const __m512i a = _mm512_loadu_si512(first + z * stride);
        const __m512i b = _mm512_loadu_si512(second + z * stride);
        low_images[z] = _mm512_unpacklo_epi16(a, b);
        high_images[z] = _mm512_unpackhi_epi16(a, b);
      }
      const auto* pairs = reinterpret_cast<const int*>(weights);
      for (int q = 0; q < kGroup; ++q) {
        const __m512i pair = _mm512_set1_epi32(pairs[q]);
        for (int z = 0; z < kBlocks; ++z) {
          low[q][z] = add_products(low[q][z], low_images[z], pair);
          high[q][z] = add_products(high[q][z], high_images[z], pair);
        }
      }
    }

    [[gnu::always_inline]] void finish(bool relu, Element* y, std::int64_t stride,
                                       std::int64_t plane, std::int64_t count) const {
      const __m512 zero = _mm512_setzero_ps();
      const __m512i in_order =
          _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);  // undoes unpack: four images each
      for (int q = 0; q < kGroup; ++q) {
        if (q >= count) break;
        for (int z = 0; z < kBlocks; ++z) {
          __m512 first = low[q][z];
          __m512 second = high[q][z];
          if (relu) first = _mm512_max_ps(zero, first);  // of a NaN and zero the NaN, the second
          if (relu) second = _mm512_max_ps(zero, second);
          const auto both = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(second, first));
          _mm512_storeu_si512(y + q * plane + z * stride, _mm512_permutexvar_epi64(in_order, both));
        }
      }
    }
  };

  [[gnu::always_inline]] static Vector load(const Element* x) { return _mm512_loadu_si512(x); }
  [[gnu::always_inline]] static __m512 multiply_add(__m512 sum, Vector a, Vector b) {
    return add_products(sum, a, b);
  }
  [[gnu::always_inline]] static __m512 add(__m512 sum, Vector a) {
    return add_products(sum, a, _mm512_set1_epi16(0x3F80));  // times one
  }
  static Element rounded(float value) { return tensor::to_bfloat16(value); }
};

}  // namespace

const LanesKernels kBfloat16Lanes = kLanesKernels<Bfloat16>;

}  // namespace coxswain::backend::onednn
