#pragma once

#include <string>

#include "trainer/augment/colour.h"

namespace coxswain::augment {

struct Brightness : Mix<Brightness> {
  static constexpr std::string_view kName = "brightness";
  static constexpr std::string_view kMeaning =
      "- `brightness`, `contrast` and `saturation` mix an image with black, with its mean grey, or "
      "with itself in\n  grey, by a factor of 1 - `amount` to 1 + `amount`: `brightness: 0.4`. As "
      "torchvision's ColorJitter on\n  PIL images, in the order of the list.\n";

  bool operator==(const Brightness&) const = default;

  std::string problem(const tensor::Shape&) const { return ""; }

  static Image with(const Image& image, float factor, Scratch& scratch) {
    scratch.resize(image.bytes.size());
    std::ranges::transform(image.bytes, scratch.begin(),
                           [&](std::uint8_t value) { return blended(0, value, factor); });
    return {image.shape, scratch};
  }
};

}  // namespace coxswain::augment
