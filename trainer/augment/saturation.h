#pragma once

#include <string>

#include "trainer/augment/colour.h"

namespace coxswain::augment {

struct Saturation {
  static constexpr std::string_view kName = "saturation";
  static constexpr std::string_view kMain = "amount";
  static constexpr std::string_view kMeaning = "";  // beside brightness

  double amount = 0.4;
  bool operator==(const Saturation&) const = default;

  template <class Self, class Visitor>
  static void visit_options(Self& self, Visitor& visitor) {
    visitor.number("amount", 0, 10, self.amount);
  }

  std::string problem(const tensor::Shape& shape) const { return needs_colours(kName, shape); }

  Image apply(const Image& image, const Random& random, Scratch& scratch) const {
    return with(image, factor_of(amount, random), scratch);
  }

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
