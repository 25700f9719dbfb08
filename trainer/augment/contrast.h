#pragma once

#include <string>

#include "trainer/augment/colour.h"

namespace coxswain::augment {

struct Contrast : Mix<Contrast> {
  static constexpr std::string_view kName = "contrast";
  static constexpr std::string_view kMeaning = "";  // beside brightness

  bool operator==(const Contrast&) const = default;

  std::string problem(const tensor::Shape&) const { return ""; }

  static Image with(const Image& image, float factor, Scratch& scratch) {
    const std::int64_t count = image.shape.h * image.shape.w;
    std::int64_t sum = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint8_t* pixel = image.bytes.data() + i * image.shape.c;
      sum += image.shape.c == 3 ? lightness(pixel) : pixel[0];
    }
    const auto mean = static_cast<int>((2 * sum + count) / (2 * count));  // rounded, as Pillow's
    scratch.resize(image.bytes.size());
    std::ranges::transform(image.bytes, scratch.begin(),
                           [&](std::uint8_t value) { return blended(mean, value, factor); });
    return {image.shape, scratch};
  }
};

}  // namespace coxswain::augment
