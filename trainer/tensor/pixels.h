#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "trainer/tensor/shape.h"

namespace coxswain::tensor {

constexpr std::int64_t kPixelValues = 256;

// View. Images as bytes, with what makes them what a model reads.
struct Pixels {
  std::span<const std::uint8_t> bytes;  // (N, H, W, C): as decoders give them
  std::span<const float> table;         // (C, 256): what each value of a channel becomes
};

// Calls `loop` with the number of channels: as a constant where it is a usual one, so that loops
// over the channels of a pixel are unrolled.
template <class Loop>
void for_channels(std::int64_t channels, Loop loop) {
  if (channels == 1) return loop(std::integral_constant<std::int64_t, 1>());
  if (channels == 3) return loop(std::integral_constant<std::int64_t, 3>());
  loop(channels);
}

// As a model reads them: `out` is of `shape`, (N, C, H, W).
inline void to_floats(const Pixels& pixels, const Shape& shape, std::span<float> out) {
  for_channels(shape.c, [&](auto channels) {
    const std::int64_t plane = shape.h * shape.w;
    const std::uint8_t* from = pixels.bytes.data();
    const float* table = pixels.table.data();
    float* to = out.data();
    for (std::int64_t n = 0; n < shape.n; ++n, to += channels * plane) {
      for (std::int64_t i = 0; i < plane; ++i, from += channels) {
        for (std::int64_t c = 0; c < channels; ++c) {
          to[c * plane + i] = table[c * kPixelValues + from[c]];
        }
      }
    }
  });
}

}  // namespace coxswain::tensor
