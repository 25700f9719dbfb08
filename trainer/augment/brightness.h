#pragma once

#include <string>

#include "trainer/augment/colour.h"

namespace coxswain::augment {

struct Brightness {
  static constexpr std::string_view kName = "brightness";
  static constexpr std::string_view kMain = "amount";
  static constexpr std::string_view kMeaning =
      "- `brightness`, `contrast` and `saturation` mix an image with black, with its mean grey, or "
      "with itself in\n  grey, by a factor of 1 - `amount` to 1 + `amount`: `brightness: 0.4`. As "
      "torchvision's ColorJitter on\n  PIL images, in the order of the list.\n";

  double amount = 0.4;
  bool operator==(const Brightness&) const = default;

  template <class Self, class Visitor>
  static void visit_options(Self& self, Visitor& visitor) {
    visitor.number("amount", 0, 10, self.amount);
  }

  std::string problem(const tensor::Shape&) const { return ""; }

  Image apply(const Image& image, const Random& random, Scratch& scratch) const {
    return with(image, factor_of(amount, random), scratch);
  }

  static Image with(const Image& image, float factor, Scratch& scratch) {
    scratch.resize(image.bytes.size());
    std::ranges::transform(image.bytes, scratch.begin(),
                           [&](std::uint8_t value) { return blended(0, value, factor); });
    return {image.shape, scratch};
  }
};

}  // namespace coxswain::augment
