#include "trainer/backend/onednn/channel_sums.h"

#include <algorithm>
#include <array>
#include <bit>

#include "trainer/backend/onednn/vector_isa.h"

namespace coxswain::backend::onednn {

namespace {

constexpr int kLanes = 16;
using Lanes = std::array<float, kLanes>;

[[gnu::always_inline]] inline float value_of(float x) { return x; }
[[gnu::always_inline]] inline float value_of(std::uint16_t x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16);
}

// Outputs [first, last) of an axis whose tap lies inside the input.
struct Range {
  std::int64_t first;
  std::int64_t last;
};
[[gnu::always_inline]] inline Range inside(const TapShape& t, std::int64_t tap, std::int64_t in,
                                           std::int64_t out) {
  const std::int64_t shift = tap - t.pad;
  const std::int64_t first = shift >= 0 ? 0 : (-shift + t.stride - 1) / t.stride;
  const std::int64_t last = in - 1 - shift < 0 ? 0 : (in - 1 - shift) / t.stride + 1;
  return {std::min(first, out), std::clamp(last, std::min(first, out), out)};
}

// One output row: its sum over the columns of each tap s.
template <typename T>
[[gnu::always_inline]] inline void row_sums(const TapShape& t, const T* row, Lanes* sums) {
  Lanes total{};
  for (std::int64_t w = 0; w < t.out_width; ++w) {
    for (int i = 0; i < kLanes; ++i)
      total[static_cast<std::size_t>(i)] += value_of(row[w * kLanes + i]);
  }
  for (std::int64_t s = 0; s < t.kernel; ++s) {
    const Range range = inside(t, s, t.in_width, t.out_width);
    sums[s] = total;
    for (std::int64_t w = 0; w < t.out_width; ++w) {
      if (w == range.first) w = std::max(w, range.last);
      if (w >= t.out_width) break;
      for (int i = 0; i < kLanes; ++i)
        sums[s][static_cast<std::size_t>(i)] -= value_of(row[w * kLanes + i]);
    }
  }
}

template <typename T>
struct TapBody {
  // Adds the images [begin, end) to sums[k][r][s].
  [[gnu::always_inline]] static void run(const TapShape* t, const T* d_y, double* sums,
                                         std::int64_t begin, std::int64_t end) {
    const std::int64_t groups = t->channels / kLanes;
    const std::int64_t row_size = t->out_width * kLanes;
    for (std::int64_t plane = begin * groups; plane < end * groups; ++plane) {
      std::array<Lanes, kMaxTapKernel * kMaxTapKernel> taps{};
      for (std::int64_t row = 0; row < t->out_height; ++row) {
        std::array<Lanes, kMaxTapKernel> columns;
        row_sums(*t, d_y + (plane * t->out_height + row) * row_size, columns.data());
        for (std::int64_t r = 0; r < t->kernel; ++r) {
          const Range range = inside(*t, r, t->in_height, t->out_height);
          if (row < range.first || row >= range.last) continue;
          for (std::int64_t s = 0; s < t->kernel; ++s) {
            Lanes& tap = taps[static_cast<std::size_t>(r * t->kernel + s)];
            const Lanes& column = columns[static_cast<std::size_t>(s)];
            for (std::size_t i = 0; i < kLanes; ++i) tap[i] += column[i];
          }
        }
      }
      double* to = sums + plane % groups * kLanes * t->kernel * t->kernel;
      for (std::int64_t i = 0; i < kLanes; ++i) {
        for (std::int64_t tap = 0; tap < t->kernel * t->kernel; ++tap) {
          *to++ += taps[static_cast<std::size_t>(tap)][static_cast<std::size_t>(i)];
        }
      }
    }
  }
};

}  // namespace

void tap_sums(const TapShape& shape, tensor::DataType type, const void* d_y, double* partial,
              double* sums) {
  const std::int64_t count = shape.channels * shape.kernel * shape.kernel;
  const TapShape* t = &shape;
  in_parallel(kTapChunks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t chunk = begin; chunk < end; ++chunk) {
      double* to = partial + chunk * count;
      std::fill_n(to, count, 0.0);
      const std::int64_t first = shape.samples * chunk / kTapChunks;
      const std::int64_t last = shape.samples * (chunk + 1) / kTapChunks;
      if (type == tensor::DataType::kFloat32) {
        run_widest<TapBody<float>>(t, static_cast<const float*>(d_y), to, first, last);
      } else {
        run_widest<TapBody<std::uint16_t>>(t, static_cast<const std::uint16_t*>(d_y), to, first,
                                           last);
      }
    }
  });
  std::copy_n(partial, count, sums);
  for (std::int64_t chunk = 1; chunk < kTapChunks; ++chunk) {
    for (std::int64_t i = 0; i < count; ++i) sums[i] += partial[chunk * count + i];
  }
}

}  // namespace coxswain::backend::onednn
