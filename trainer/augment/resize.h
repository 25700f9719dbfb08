#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "trainer/augment/resample.h"

namespace coxswain::augment {

enum class Fit { kShort, kStretch };
constexpr Words<Fit, 2> words_of(Fit) {
  return {{{Fit::kShort, "short"}, {Fit::kStretch, "stretch"}}};
}

// In training and evaluation alike. Of the longer side the fraction is cut off, as torchvision
// does.
struct Resize {
  static constexpr std::string_view kName = "resize";
  static constexpr std::string_view kMain = "size";
  static constexpr std::string_view kMeaning =
      "- `resize` makes the shorter side `size` (256) long and keeps the proportions (`fit: "
      "short`, "
      "as\n  torchvision), or makes both sides as long (`stretch`, as gluon and Keras).\n"
      "  `interpolation: bilinear | antialias`: of the four nearest pixels, as OpenCV's "
      "INTER_LINEAR and so\n  MXNet; or of all that a new one covers, as Pillow's BILINEAR and so "
      "torchvision on PIL images.\n";

  std::int64_t size = 256;
  Fit fit = Fit::kShort;
  Interpolation interpolation = Interpolation::kBilinear;
  bool operator==(const Resize&) const = default;

  template <class Self, class Visitor>
  static void visit_options(Self& self, Visitor& visitor) {
    visitor.integer("size", 1, 8192, self.size);
    visitor.choice("fit", self.fit);
    visitor.choice("interpolation", self.interpolation);
  }

  tensor::Shape result(const tensor::Shape& shape) const {
    const std::int64_t side = std::min(shape.h, shape.w);
    if (fit == Fit::kStretch) return {1, shape.c, size, size};
    if (side == 0) return {1, shape.c, 0, 0};
    return {1, shape.c, size * shape.h / side, size * shape.w / side};
  }

  std::string problem(const tensor::Shape& shape) const {
    const tensor::Shape made = result(shape);
    if (made.h == 0 || made.h <= kMostPixels / made.w) return "";
    return fmt::format("resize makes {}x{} of {}x{}, over the limit of {} pixels", made.w, made.h,
                       shape.w, shape.h, kMostPixels);
  }

  Image settle(const Image& image, Scratch& scratch) const {
    const tensor::Shape made = result(image.shape);
    if (made == image.shape) return image;
    return resample(image, whole(image.shape), made.h, made.w, interpolation, scratch);
  }
};

}  // namespace coxswain::augment
