#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "trainer/tensor/philox.h"
#include "trainer/tensor/pixels.h"
#include "trainer/tensor/shape.h"

namespace coxswain::augment {

// An image that somebody else owns. The channels of a pixel stand together, as decoders give them
// and as changes of colour need them.
struct Image {
  tensor::Shape shape;                  // (1, C, H, W)
  std::span<const std::uint8_t> bytes;  // (H, W, C), 0..255
};

// Where an image is made; kept, so that the next one allocates nothing.
using Scratch = std::vector<std::uint8_t>;

using tensor::for_channels;

// The bytes of an image whose channels are planes, (C, H, W), as (H, W, C).
inline void interleave(std::span<const std::uint8_t> planes, const tensor::Shape& shape,
                       std::span<std::uint8_t> out) {
  for_channels(shape.c, [&](auto channels) {
    const std::int64_t plane = shape.h * shape.w;
    const std::uint8_t* from = planes.data();
    std::uint8_t* to = out.data();
    for (std::int64_t i = 0; i < plane; ++i, ++from, to += channels) {
      for (std::int64_t c = 0; c < channels; ++c) to[c] = from[c * plane];
    }
  });
}

// What a sample's random numbers are keyed by (docs/design.md, "Random numbers"): equal on whatever
// rank reads it.
struct SampleKey {
  std::uint64_t seed = 0;
  std::int64_t sample_id = 0;
  std::int64_t epoch = 0;
};

// The random numbers of one augmentation of one sample. Its stream is the augmentation's name:
// "flip", "flip#1" for the second flip of a list, and so on.
struct Random {
  SampleKey key;
  std::uint32_t stream = 0;

  // Four of them; further ones by `index`.
  std::array<std::uint32_t, 4> words(std::uint32_t index = 0) const {
    return tensor::philox(key.seed, {static_cast<std::uint32_t>(key.sample_id),
                                     static_cast<std::uint32_t>(key.epoch), stream, index});
  }
};

// A word as a number in [0, 1), and as one of `count` places.
inline double uniform(std::uint32_t word) { return word * 0x1.0p-32; }
inline double between(double low, double high, std::uint32_t word) {
  return low + (high - low) * uniform(word);
}
inline std::int64_t place(std::uint32_t word, std::int64_t count) {
  return static_cast<std::int64_t>((word * static_cast<std::uint64_t>(count)) >> 32);
}

// As many pixels as a step may make of an image.
constexpr std::int64_t kMostPixels = std::int64_t{1} << 26;

}  // namespace coxswain::augment
