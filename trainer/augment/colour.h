#pragma once

#include <algorithm>
#include <string>

#include "trainer/augment/image.h"

namespace coxswain::augment {

// How light a pixel of red, green and blue is: Pillow's convert("L").
inline int lightness(const std::uint8_t* pixel) {
  return (pixel[0] * 19595 + pixel[1] * 38470 + pixel[2] * 7471 + 0x8000) >> 16;
}

// From `of` at factor 0 to the image's own value at 1, and beyond: Pillow's Image.blend, which cuts
// the fraction off.
inline std::uint8_t blended(int of, int value, float factor) {
  const float mixed = static_cast<float>(of) + factor * static_cast<float>(value - of);
  return static_cast<std::uint8_t>(std::clamp(mixed, 0.0F, 255.0F));
}

// 1 - amount .. 1 + amount, at least 0: torchvision's ColorJitter.
inline float factor_of(double amount, const Random& random) {
  return static_cast<float>(between(std::max(0.0, 1 - amount), 1 + amount, random.words()[0]));
}

// What brightness, contrast and saturation have alike; each says what it mixes an image with.
template <class Colour>
struct Mix {
  static constexpr std::string_view kMain = "amount";

  double amount = 0.4;
  bool operator==(const Mix&) const = default;

  template <class Self, class Visitor>
  static void visit_options(Self& self, Visitor& visitor) {
    visitor.number("amount", 0, 10, self.amount);
  }

  Image apply(const Image& image, const Random& random, Scratch& scratch) const {
    return Colour::with(image, factor_of(amount, random), scratch);
  }
};

inline std::string needs_colours(std::string_view name, const tensor::Shape& shape) {
  if (shape.c == 0 || shape.c == 3) return "";
  return std::string(name) + " needs images of 3 channels, not " + std::to_string(shape.c);
}

}  // namespace coxswain::augment
