#include "trainer/augment/resample.h"

#include <emmintrin.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>

namespace coxswain::augment {

namespace {

constexpr int kWeightBits = 14;
constexpr std::int32_t kOne = 1 << kWeightBits;
constexpr int kBetweenBits = 6;  // kept below a byte's unit between the two directions

// What each of the new pixels of one direction is made of.
struct Taps {
  std::int64_t count = 0;             // of each
  std::vector<std::int64_t> first;    // old pixel, where the weights begin
  std::vector<std::int32_t> weights;  // `count` each, kOne in sum; 0 beyond the last
};

// Rounds so that they are kOne in sum: what is left over goes to the largest.
void store(Taps& taps, std::span<const double> weights, std::int64_t first, std::int64_t side) {
  // All taps stay within the side, so that none asks for its end.
  const std::int64_t begin = std::max<std::int64_t>(0, std::min(first, side - taps.count));
  double sum = 0;
  for (const double weight : weights) sum += weight;
  const std::size_t at = taps.weights.size();
  taps.weights.resize(at + static_cast<std::size_t>(taps.count));
  std::int32_t left = kOne;
  std::size_t largest = at;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::size_t to = at + static_cast<std::size_t>(first - begin) + i;
    taps.weights[to] = static_cast<std::int32_t>(std::lround(weights[i] / sum * kOne));
    left -= taps.weights[to];
    if (taps.weights[to] > taps.weights[largest]) largest = to;
  }
  taps.weights[largest] += left;
  taps.first.push_back(begin);
}

Taps bilinear(std::int64_t from, std::int64_t to) {
  Taps taps{.count = std::min<std::int64_t>(2, from), .first = {}, .weights = {}};
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  for (std::int64_t i = 0; i < to; ++i) {
    const double at = std::clamp((static_cast<double>(i) + 0.5) * scale - 0.5, 0.0,
                                 static_cast<double>(from - 1));
    const auto first = static_cast<std::int64_t>(at);
    const double part = at - static_cast<double>(first);
    const std::array<double, 2> weights{first + 1 < from ? 1 - part : 1, part};
    store(taps, std::span(weights).first(first + 1 < from ? 2 : 1), first, from);
  }
  return taps;
}

// Pillow's src/libImaging/Resample.c, precompute_coeffs, with its triangle.
Taps antialias(std::int64_t from, std::int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double support = std::max(scale, 1.0);
  Taps taps{.count = std::min(from, static_cast<std::int64_t>(std::ceil(support)) * 2 + 1),
            .first = {},
            .weights = {}};
  std::vector<double> weights;
  for (std::int64_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<std::int64_t>(0, static_cast<std::int64_t>(centre - support + 0.5));
    const auto end = std::min(from, static_cast<std::int64_t>(centre + support + 0.5));
    weights.clear();
    for (std::int64_t x = first; x < end; ++x) {
      const double distance = std::abs((static_cast<double>(x) + 0.5 - centre) / support);
      weights.push_back(std::max(0.0, 1 - distance));
    }
    store(taps, weights, first, from);
  }
  return taps;
}

Taps make_taps(std::int64_t from, std::int64_t to, Interpolation interpolation) {
  return interpolation == Interpolation::kBilinear ? bilinear(from, to) : antialias(from, to);
}

struct RowMix {
  const std::uint8_t* from;  // the first old row
  std::size_t stride;
  const std::int32_t* weights;
  std::int64_t count;
  std::int32_t* sums;
  std::uint16_t* out;
  std::size_t length;
};

// One new row, at the old width, in units of 2^-kBetweenBits.
[[gnu::always_inline]] inline void mix(const RowMix& rows) {
  std::int32_t* __restrict sums = rows.sums;
  std::uint16_t* __restrict out = rows.out;
  for (std::size_t i = 0; i < rows.length; ++i) sums[i] = rows.weights[0] * rows.from[i];
  for (std::int64_t k = 1; k < rows.count; ++k) {
    const std::int32_t weight = rows.weights[k];
    const std::uint8_t* row = rows.from + static_cast<std::size_t>(k) * rows.stride;
    if (weight == 0) continue;
    for (std::size_t i = 0; i < rows.length; ++i) sums[i] += weight * row[i];
  }
  constexpr int kShift = kWeightBits - kBetweenBits;
  for (std::size_t i = 0; i < rows.length; ++i) {
    out[i] = static_cast<std::uint16_t>((sums[i] + (1 << (kShift - 1))) >> kShift);
  }
}

__attribute__((target("arch=x86-64-v4"))) void mix_avx512(const RowMix& rows) { mix(rows); }
__attribute__((target("arch=x86-64-v3"))) void mix_avx2(const RowMix& rows) { mix(rows); }

// By hand, because programs with target_clones crash under ThreadSanitizer before main. Of whole
// numbers: the same on every machine.
void mix_rows(const RowMix& rows) {
  if (__builtin_cpu_supports("x86-64-v4")) return mix_avx512(rows);
  if (__builtin_cpu_supports("x86-64-v3")) return mix_avx2(rows);
  mix(rows);
}

// Of three channels: four values of a pixel and of the next one are multiplied and added at once,
// the fourth in vain. Values below 2^14 and weights up to 2^14 fit where their sign must not be.
void mix_colours(const std::uint16_t* row, const Taps& taps, std::uint8_t* out) {
  constexpr int kShift = kWeightBits + kBetweenBits;
  const std::int32_t* weights = taps.weights.data();
  const auto four_at = [](const std::uint16_t* from) {
    return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
  };
  for (const std::int64_t first : taps.first) {
    const std::uint16_t* from = row + first * 3;
    __m128i sums = _mm_set1_epi32(1 << (kShift - 1));
    for (std::int64_t k = 0; k < taps.count; k += 2, from += 6) {
      const std::int32_t next = k + 1 < taps.count ? weights[k + 1] : 0;
      const __m128i pairs = _mm_unpacklo_epi16(four_at(from), four_at(from + 3));
      sums = _mm_add_epi32(sums, _mm_madd_epi16(pairs, _mm_set1_epi32(next << 16 | weights[k])));
    }
    sums = _mm_srai_epi32(sums, kShift);
    const __m128i bytes = _mm_packus_epi16(_mm_packs_epi32(sums, sums), sums);
    const std::int32_t three = _mm_cvtsi128_si32(bytes);
    std::memcpy(out, &three, 3);
    out += 3;
    weights += taps.count;
  }
}

template <class Channels>
void mix_columns(const std::uint16_t* row, const Taps& taps, Channels channels, std::uint8_t* out) {
  constexpr int kShift = kWeightBits + kBetweenBits;
  const std::int32_t* weights = taps.weights.data();
  for (const std::int64_t first : taps.first) {
    const std::uint16_t* from = row + first * channels;
    for (std::int64_t c = 0; c < channels; ++c) {
      std::int32_t sum = 1 << (kShift - 1);
      for (std::int64_t k = 0; k < taps.count; ++k) sum += weights[k] * from[k * channels + c];
      *out++ = static_cast<std::uint8_t>(sum >> kShift);
    }
    weights += taps.count;
  }
}

}  // namespace

Image crop(const Image& image, const Box& box, Scratch& scratch) {
  const std::int64_t channels = image.shape.c;
  const tensor::Shape shape{1, channels, box.height, box.width};
  scratch.resize(static_cast<std::size_t>(shape.per_sample()));
  const std::int64_t line = box.width * channels;
  for (std::int64_t y = 0; y < box.height; ++y) {
    const std::int64_t from = ((box.y + y) * image.shape.w + box.x) * channels;
    std::copy_n(image.bytes.data() + from, line, scratch.data() + y * line);
  }
  return {shape, scratch};
}

Image resample(const Image& image, const Box& box, std::int64_t height, std::int64_t width,
               Interpolation interpolation, Scratch& scratch) {
  if (box.height == height && box.width == width) return crop(image, box, scratch);
  const Taps rows = make_taps(box.height, height, interpolation);
  const Taps columns = make_taps(box.width, width, interpolation);
  const tensor::Shape shape{1, image.shape.c, height, width};
  scratch.resize(static_cast<std::size_t>(shape.per_sample()));
  const auto length = static_cast<std::size_t>(box.width * image.shape.c);
  const auto stride = static_cast<std::size_t>(image.shape.w * image.shape.c);
  std::vector<std::int32_t> sums(length);
  constexpr std::size_t kBeyond = 4;  // read, and not used
  std::vector<std::uint16_t> row(length + kBeyond);
  for_channels(image.shape.c, [&](auto channels) {
    const std::uint8_t* from = image.bytes.data() + (box.y * image.shape.w + box.x) * channels;
    std::uint8_t* to = scratch.data();
    for (std::int64_t y = 0; y < height; ++y, to += width * channels) {
      const auto at = static_cast<std::size_t>(y);
      mix_rows({from + static_cast<std::size_t>(rows.first[at]) * stride, stride,
                rows.weights.data() + at * static_cast<std::size_t>(rows.count), rows.count,
                sums.data(), row.data(), length});
      if (channels == 3) {
        mix_colours(row.data(), columns, to);
      } else {
        mix_columns(row.data(), columns, channels, to);
      }
    }
  });
  return {shape, scratch};
}

}  // namespace coxswain::augment
