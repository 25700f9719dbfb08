#include "trainer/backend/onednn/lanes_pool.h"

#include <immintrin.h>

#include <algorithm>

#include "trainer/backend/onednn/lanes_convolution.h"
#include "trainer/backend/onednn/vector_isa.h"

namespace coxswain::backend::onednn {

namespace {

using tensor::DataType;

constexpr std::int64_t kVector = 16;

template <typename T>
constexpr std::int64_t kLanes = sizeof(T) == 4 ? 16 : 32;

[[gnu::target("avx512f,avx512vl"), gnu::always_inline]] inline __m512 load(const float* from) {
  return _mm512_loadu_ps(from);
}
[[gnu::target("avx512f,avx512vl"), gnu::always_inline]] inline __m512 load(
    const std::uint16_t* from) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}
[[gnu::target("avx512f,avx512vl"), gnu::always_inline]] inline void store(float* to, __m512 value) {
  _mm512_storeu_ps(to, value);
}
// Of values that came from bf16: exact.
[[gnu::target("avx512f,avx512vl"), gnu::always_inline]] inline void store(std::uint16_t* to,
                                                                          __m512 value) {
  const __m256i bits = _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(value), 16));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), bits);
}

// Calls f(offset of the window's corner in x, offset in y) for every 16 images of output rows
// [begin, end), counted over all planes.
template <typename T, typename F>
[[gnu::always_inline]] inline void for_windows(const LanesPool& pool, std::int64_t begin,
                                               std::int64_t end, const F& f) {
  for (std::int64_t item = begin; item < end; ++item) {
    const std::int64_t row =
        item / pool.out_height() * pool.in_height + item % pool.out_height() * pool.kernel;
    for (std::int64_t column = 0; column < pool.out_width(); ++column) {
      const std::int64_t from = (row * pool.in_width + column * pool.kernel) * kLanes<T>;
      const std::int64_t to = (item * pool.out_width() + column) * kLanes<T>;
      for (std::int64_t lane = 0; lane < kLanes<T>; lane += kVector) f(from + lane, to + lane);
    }
  }
}

template <typename T>
std::int64_t cell_offset(const LanesPool& pool, std::int64_t cell) {
  return (cell / pool.kernel * pool.in_width + cell % pool.kernel) * kLanes<T>;
}

template <typename T>
[[gnu::target("avx512f,avx512vl")]] void forward_window(const LanesPool& pool, const T* x, T* y,
                                                        std::uint8_t* places) {
  __m512 best = load(x);
  __m512i place = _mm512_setzero_si512();
  for (std::int64_t cell = 1; cell < pool.kernel * pool.kernel; ++cell) {
    const __m512 value = load(x + cell_offset<T>(pool, cell));
    const __mmask16 wins = _mm512_cmp_ps_mask(value, best, _CMP_GT_OQ) |
                           _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
    best = _mm512_mask_mov_ps(best, wins, value);
    place = _mm512_mask_set1_epi32(place, wins, static_cast<int>(cell));
  }
  store(y, best);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(places), _mm512_cvtepi32_epi8(place));
}

template <typename T>
[[gnu::target("avx512f,avx512vl")]] void backward_window(const LanesPool& pool, const T* d_y,
                                                         const std::uint8_t* places, T* d_x) {
  const __m512 gradient = load(d_y);
  const __m512i place =
      _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(places)));
  for (std::int64_t cell = 0; cell < pool.kernel * pool.kernel; ++cell) {
    const __mmask16 here =
        _mm512_cmpeq_epi32_mask(place, _mm512_set1_epi32(static_cast<int>(cell)));
    store(d_x + cell_offset<T>(pool, cell), _mm512_maskz_mov_ps(here, gradient));
  }
}

// Rows and columns that no window reaches.
template <typename T>
void clear_edges(const LanesPool& pool, T* d_x) {
  const std::int64_t rows = pool.out_height() * pool.kernel;
  const std::int64_t columns = pool.out_width() * pool.kernel;
  if (rows == pool.in_height && columns == pool.in_width) return;
  for (std::int64_t plane = 0; plane < pool.planes; ++plane) {
    for (std::int64_t row = 0; row < pool.in_height; ++row) {
      T* to = d_x + (plane * pool.in_height + row) * pool.in_width * kLanes<T>;
      const std::int64_t first = row < rows ? columns : 0;
      std::fill(to + first * kLanes<T>, to + pool.in_width * kLanes<T>, T{0});
    }
  }
}

template <typename T>
void forward(const LanesPool& pool, const T* x, T* y, std::uint8_t* places) {
  in_parallel(pool.planes * pool.out_height(), 16, [&](std::int64_t begin, std::int64_t end) {
    for_windows<T>(pool, begin, end, [&](std::int64_t from, std::int64_t to) {
      forward_window(pool, x + from, y + to, places + to);
    });
  });
}

template <typename T>
void backward(const LanesPool& pool, const T* d_y, const std::uint8_t* places, T* d_x) {
  clear_edges(pool, d_x);
  in_parallel(pool.planes * pool.out_height(), 16, [&](std::int64_t begin, std::int64_t end) {
    for_windows<T>(pool, begin, end, [&](std::int64_t from, std::int64_t to) {
      backward_window(pool, d_y + to, places + to, d_x + from);
    });
  });
}

}  // namespace

void lanes_pool_forward(const LanesPool& pool, DataType type, const void* x, void* y,
                        std::uint8_t* places) {
  if (type == DataType::kFloat32)
    return forward(pool, static_cast<const float*>(x), static_cast<float*>(y), places);
  forward(pool, static_cast<const std::uint16_t*>(x), static_cast<std::uint16_t*>(y), places);
}

void lanes_pool_backward(const LanesPool& pool, DataType type, const void* d_y,
                         const std::uint8_t* places, void* d_x) {
  if (type == DataType::kFloat32) {
    return backward(pool, static_cast<const float*>(d_y), places, static_cast<float*>(d_x));
  }
  backward(pool, static_cast<const std::uint16_t*>(d_y), places, static_cast<std::uint16_t*>(d_x));
}

}  // namespace coxswain::backend::onednn
