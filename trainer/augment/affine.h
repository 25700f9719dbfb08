#pragma once

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string>

#include "trainer/augment/resample.h"

namespace coxswain::augment {

// MXNet's one warp (DefaultImageAugmenter): about the middle, bilinear, not antialiased. Another
// scale makes an image of another size. The first two rounds of words.
struct Affine {
  static constexpr std::string_view kName = "affine";
  static constexpr std::string_view kMeaning =
      "- `affine` turns by up to `rotate` degrees either way, leans by up to `shear`, makes larger "
      "by "
      "a factor in `scale`\n  ([1, 1]) and broader by up to `aspect`, in one warp, as MXNet's "
      "max_rotate_angle, max_shear_ratio,\n  min/max_random_scale and max_aspect_ratio; what is "
      "beside the image is `fill` (255). With a scale the size is\n  random: a crop must follow.\n";

  std::int64_t rotate = 0;
  double shear = 0;
  std::array<double, 2> scale{1, 1};
  double aspect = 0;
  std::int64_t fill = 255;
  bool operator==(const Affine&) const = default;

  template <class Self, class Visitor>
  static void visit_options(Self& self, Visitor& visitor) {
    visitor.integer("rotate", 0, 360, self.rotate);
    visitor.number("shear", 0, 10, self.shear);
    visitor.range("scale", 0.01, 10, self.scale);
    visitor.number("aspect", 0, 0.99, self.aspect);
    visitor.integer("fill", 0, 255, self.fill);
  }

  bool keeps_size() const { return scale[0] == 1 && scale[1] == 1; }
  tensor::Shape result(const tensor::Shape& shape) const {
    return keeps_size() ? shape : tensor::Shape{1, shape.c, 0, 0};
  }
  std::string problem(const tensor::Shape& shape) const {
    const double side = scale[1] * static_cast<double>(std::max<std::int64_t>(shape.w, 1));
    if (side * scale[1] * static_cast<double>(shape.h) <= static_cast<double>(kMostPixels))
      return "";
    return fmt::format("affine makes more than {} pixels of {}x{}", kMostPixels, shape.w, shape.h);
  }

  Image apply(const Image& image, const Random& random, Scratch& scratch) const {
    const auto first = random.words();
    const auto second = random.words(1);
    const double factor = between(scale[0], scale[1], first[2]);
    return warp(image, static_cast<int>(place(first[0], 2 * rotate + 1) - rotate),
                between(-shear, shear, first[1]), factor,
                between(1 - aspect, 1 + aspect, second[0]), scratch);
  }

  Image warp(const Image& image, int degrees, double lean, double factor, double ratio,
             Scratch& scratch) const {
    constexpr double kPi = 3.14159265358979323846;
    const double a = std::cos(degrees / 180.0 * kPi);
    const double b = std::sin(degrees / 180.0 * kPi);
    const double hs = 2 * factor / (1 + ratio);
    const double ws = ratio * hs;
    const auto scaled = [&](std::int64_t side) {
      return std::max<std::int64_t>(1,
                                    static_cast<std::int64_t>(factor * static_cast<double>(side)));
    };
    const tensor::Shape shape{1, image.shape.c, scaled(image.shape.h), scaled(image.shape.w)};
    // From new to old, about the middles; the determinant is hs x ws.
    const double m00 = hs * a - lean * b * ws;
    const double m10 = -b * ws;
    const double m01 = hs * b + lean * a * ws;
    const double m11 = a * ws;
    const double unit = 1 / (m00 * m11 - m01 * m10);
    const double x0 =
        (factor * static_cast<double>(image.shape.w) - m00 * static_cast<double>(image.shape.w) -
         m01 * static_cast<double>(image.shape.h)) /
        2;
    const double y0 =
        (factor * static_cast<double>(image.shape.h) - m10 * static_cast<double>(image.shape.w) -
         m11 * static_cast<double>(image.shape.h)) /
        2;
    scratch.resize(static_cast<std::size_t>(shape.per_sample()));
    std::uint8_t* to = scratch.data();
    for (std::int64_t y = 0; y < shape.h; ++y) {
      for (std::int64_t x = 0; x < shape.w; ++x, to += shape.c) {
        const double dx = static_cast<double>(x) - x0;
        const double dy = static_cast<double>(y) - y0;
        take(image, (m11 * dx - m01 * dy) * unit, (m00 * dy - m10 * dx) * unit, to);
      }
    }
    return {shape, scratch};
  }

 private:
  // Of the four nearest pixels; those beside the image are `fill`.
  void take(const Image& image, double x, double y, std::uint8_t* to) const {
    const double left = std::floor(x);
    const double top = std::floor(y);
    for (std::int64_t c = 0; c < image.shape.c; ++c) {
      double sum = 0.5;
      for (const int dy : {0, 1}) {
        for (const int dx : {0, 1}) {
          const double column = left + dx;
          const double row = top + dy;
          const bool is_inside = column >= 0 && row >= 0 &&
                                 column < static_cast<double>(image.shape.w) &&
                                 row < static_cast<double>(image.shape.h);
          const double value = is_inside ? image.bytes[static_cast<std::size_t>(
                                               (static_cast<std::int64_t>(row) * image.shape.w +
                                                static_cast<std::int64_t>(column)) *
                                                   image.shape.c +
                                               c)]
                                         : static_cast<double>(fill);
          sum += value * (dx == 0 ? left + 1 - x : x - left) * (dy == 0 ? top + 1 - y : y - top);
        }
      }
      to[c] = static_cast<std::uint8_t>(sum);
    }
  }
};

}  // namespace coxswain::augment
