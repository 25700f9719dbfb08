#pragma once

#include <algorithm>
#include <string>

#include "trainer/augment/image.h"

namespace coxswain::augment {

// DeVries and Taylor, arXiv:1708.04552: the middle of the square is anywhere in the image, so that
// a part of it may lie outside.
struct Cutout {
  static constexpr std::string_view kName = "cutout";
  static constexpr std::string_view kMain = "size";
  static constexpr std::string_view kMeaning =
      "- `cutout` covers a square of `size` (16) pixels a side, whose middle is anywhere in the "
      "image, with `fill`\n  (127).\n";

  std::int64_t size = 16;
  std::int64_t fill = 127;
  bool operator==(const Cutout&) const = default;

  template <class Self, class Visitor>
  static void visit_options(Self& self, Visitor& visitor) {
    visitor.integer("size", 1, 8192, self.size);
    visitor.integer("fill", 0, 255, self.fill);
  }

  std::string problem(const tensor::Shape&) const { return ""; }

  Image apply(const Image& image, const Random& random, Scratch& scratch) const {
    const auto words = random.words();
    const auto cut = [&](std::uint32_t word, std::int64_t side) {
      const std::int64_t first = place(word, side) - size / 2;
      return std::pair{std::max<std::int64_t>(0, first), std::min(side, first + size)};
    };
    const auto [top, bottom] = cut(words[0], image.shape.h);
    const auto [left, right] = cut(words[1], image.shape.w);
    scratch.assign(image.bytes.begin(), image.bytes.end());
    for (std::int64_t y = top; y < bottom; ++y) {
      std::fill_n(scratch.data() + (y * image.shape.w + left) * image.shape.c,
                  (right - left) * image.shape.c, static_cast<std::uint8_t>(fill));
    }
    return {image.shape, scratch};
  }
};

}  // namespace coxswain::augment
