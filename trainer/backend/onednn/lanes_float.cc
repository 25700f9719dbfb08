#include <immintrin.h>

#include <algorithm>

#include "trainer/backend/onednn/lanes_kernels.h"

// From here on alone: what a header of everybody's defines must run on any CPU.
#pragma GCC target("avx512f")
#include "trainer/backend/onednn/lanes_loops.h"

namespace coxswain::backend::onednn {

namespace {

struct Float {
  using Element = float;
  using Vector = __m512;
  static constexpr std::int64_t kLanes = 16;
  static constexpr int kDepth = 1;
  static constexpr int kTileBlocks = 4;

  // Of kGroup channels, for the images of a tile; `stride` is the distance of two blocks.
  template <int kBlocks>
  struct Sums {
    __m512 value[kGroup][kBlocks];

    [[gnu::always_inline]] void start(const float* bias, std::int64_t count) {
      for (int q = 0; q < kGroup; ++q) {
        const float first = bias != nullptr && q < count ? bias[q] : 0.F;
        for (int z = 0; z < kBlocks; ++z) value[q][z] = _mm512_set1_ps(first);
      }
    }

    // sums[q] += weights[q] * x
    [[gnu::always_inline]] void accumulate(const float* x, const float*, std::int64_t stride,
                                           const float* weights) {
      __m512 images[kBlocks];
      for (int z = 0; z < kBlocks; ++z) images[z] = _mm512_loadu_ps(x + z * stride);
      for (int q = 0; q < kGroup; ++q) {
        const __m512 weight = _mm512_set1_ps(weights[q]);
        for (int z = 0; z < kBlocks; ++z) {
          value[q][z] = _mm512_fmadd_ps(weight, images[z], value[q][z]);
        }
      }
    }

    [[gnu::always_inline]] void finish(bool relu, float* y, std::int64_t stride,
                                       std::int64_t plane, std::int64_t count) const {
      const __m512 zero = _mm512_setzero_ps();
      for (int q = 0; q < kGroup; ++q) {
        if (q >= count) break;
        for (int z = 0; z < kBlocks; ++z) {
          __m512 result = value[q][z];
          if (relu) result = _mm512_max_ps(zero, result);  // of a NaN and zero the NaN, the second
          _mm512_storeu_ps(y + q * plane + z * stride, result);
        }
      }
    }
  };

  [[gnu::always_inline]] static Vector load(const float* x) { return _mm512_loadu_ps(x); }
  [[gnu::always_inline]] static __m512 multiply_add(__m512 sum, Vector a, Vector b) {
    return _mm512_fmadd_ps(a, b, sum);
  }
  [[gnu::always_inline]] static __m512 add(__m512 sum, Vector a) { return _mm512_add_ps(sum, a); }
  static float rounded(float value) { return value; }
};

}  // namespace

const LanesKernels kFloatLanes = kLanesKernels<Float>;

}  // namespace coxswain::backend::onednn
