#pragma once

#include <string>

#include "trainer/augment/colour.h"

namespace coxswain::augment {

struct Saturation : Mix<Saturation> {
  static constexpr std::string_view kName = "saturation";
  static constexpr std::string_view kMeaning = "";  // beside brightness

  bool operator==(const Saturation&) const = default;

  std::string problem(const tensor::Shape& shape) const { return needs_colours(kName, shape); }

  static Image with(const Image& image, float factor, Scratch& scratch) {
    scratch.resize(image.bytes.size());
    for (std::size_t i = 0; i < image.bytes.size(); i += 3) {
      const int grey = lightness(image.bytes.data() + i);
      for (std::size_t c = 0; c < 3; ++c)
        scratch[i + c] = blended(grey, image.bytes[i + c], factor);
    }
    return {image.shape, scratch};
  }
};

}  // namespace coxswain::augment
