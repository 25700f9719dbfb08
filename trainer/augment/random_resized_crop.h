#pragma once

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string>

#include "trainer/augment/resample.h"

namespace coxswain::augment {

// `base` to the power of word / 2^32, of multiplications and square roots alone, which are equal on
// every machine.
inline double fractional_power(double base, std::uint32_t word) {
  double result = 1;
  double root = base;
  for (int bit = 31; bit >= 0; --bit) {
    root = std::sqrt(root);
    if ((word >> bit & 1U) != 0) result *= root;
  }
  return result;
}

// torchvision's RandomResizedCrop.get_params: ten tries of an area and a log-uniform aspect ratio,
// then the largest middle part of an allowed ratio. Each try takes four words: area, ratio, row and
// column.
struct RandomResizedCrop {
  static constexpr std::string_view kName = "random-resized-crop";
  static constexpr std::string_view kMain = "size";
  static constexpr std::string_view kMeaning =
      "- `random-resized-crop` cuts out a random part, `scale` ([0.08, 1]) of the area, with its "
      "width over its\n  height within `ratio` ([0.75, 1.3333]), and makes it `size` (224) pixels "
      "a "
      "side; as torchvision's\n  RandomResizedCrop. In evaluation the largest middle part, "
      "undistorted where `ratio` allows it.\n  `interpolation` as in `resize`.\n";

  std::int64_t size = 224;
  std::array<double, 2> scale{0.08, 1};
  std::array<double, 2> ratio{3.0 / 4, 4.0 / 3};
  Interpolation interpolation = Interpolation::kBilinear;
  bool operator==(const RandomResizedCrop&) const = default;

  template <class Self, class Visitor>
  static void visit_options(Self& self, Visitor& visitor) {
    visitor.integer("size", 1, 8192, self.size);
    visitor.range("scale", 1e-6, 1, self.scale);
    visitor.range("ratio", 1e-3, 1e3, self.ratio);
    visitor.choice("interpolation", self.interpolation);
  }

  std::string problem(const tensor::Shape&) const { return ""; }
  tensor::Shape result(const tensor::Shape& shape) const { return {1, shape.c, size, size}; }

  Image apply(const Image& image, const Random& random, Scratch& scratch) const {
    return resample(image, choose(image.shape, random), size, size, interpolation, scratch);
  }

  Image settle(const Image& image, Scratch& scratch) const {
    const double middle = std::sqrt(ratio[0] * ratio[1]);
    return resample(image, middle_part(image.shape, middle, middle), size, size, interpolation,
                    scratch);
  }

  Box choose(const tensor::Shape& shape, const Random& random) const {
    const double area = static_cast<double>(shape.h) * static_cast<double>(shape.w);
    for (std::uint32_t attempt = 0; attempt < 10; ++attempt) {
      const auto words = random.words(attempt);
      const double part = area * between(scale[0], scale[1], words[0]);
      const double aspect = ratio[0] * fractional_power(ratio[1] / ratio[0], words[1]);
      const auto width = static_cast<std::int64_t>(std::nearbyint(std::sqrt(part * aspect)));
      const auto height = static_cast<std::int64_t>(std::nearbyint(std::sqrt(part / aspect)));
      if (width < 1 || height < 1 || width > shape.w || height > shape.h) continue;
      return {place(words[2], shape.h - height + 1), place(words[3], shape.w - width + 1), height,
              width};
    }
    return middle_part(shape, ratio[0], ratio[1]);
  }

 private:
  // The largest whose width over its height is between the two.
  static Box middle_part(const tensor::Shape& shape, double least, double most) {
    Box box = whole(shape);
    const double aspect = static_cast<double>(shape.w) / static_cast<double>(shape.h);
    const auto rounded = [](double value, std::int64_t limit) {
      return std::clamp<std::int64_t>(static_cast<std::int64_t>(std::nearbyint(value)), 1, limit);
    };
    if (aspect < least) {
      box.height = rounded(static_cast<double>(shape.w) / least, shape.h);
    } else if (aspect > most) {
      box.width = rounded(static_cast<double>(shape.h) * most, shape.w);
    }
    box.y = (shape.h - box.height) / 2;
    box.x = (shape.w - box.width) / 2;
    return box;
  }
};

}  // namespace coxswain::augment
