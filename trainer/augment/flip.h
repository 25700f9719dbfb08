#pragma once

#include <string>

#include "trainer/augment/image.h"

namespace coxswain::augment {

inline Image mirrored(const Image& image, Scratch& scratch) {
  scratch.resize(image.bytes.size());
  for_channels(image.shape.c, [&](auto channels) {
    const std::int64_t line = image.shape.w * channels;
    const std::uint8_t* from = image.bytes.data();
    std::uint8_t* to = scratch.data();
    for (std::int64_t y = 0; y < image.shape.h; ++y, from += line) {
      for (std::int64_t x = line - channels; x >= 0; x -= channels, to += channels) {
        for (std::int64_t c = 0; c < channels; ++c) to[c] = from[x + c];
      }
    }
  });
  return {image.shape, scratch};
}

// Mirrors left and right with probability 1/2: the first word's upper bit.
struct Flip {
  static constexpr std::string_view kName = "flip";
  static constexpr std::string_view kMeaning =
      "- `flip` mirrors left and right, every second image on average.\n";

  bool operator==(const Flip&) const = default;

  template <class Self, class Visitor>
  static void visit_options(Self&, Visitor&) {}

  std::string problem(const tensor::Shape&) const { return ""; }

  Image apply(const Image& image, const Random& random, Scratch& scratch) const {
    return random.words()[0] >> 31 == 0 ? image : mirrored(image, scratch);
  }
};

}  // namespace coxswain::augment
