#pragma once

#include <algorithm>
#include <string>

#include "trainer/augment/beta.h"

namespace coxswain::augment {

// Yun and others, arXiv:1905.04899, cut as torchvision's CutMix cuts.
struct Cutmix {
  static constexpr std::string_view kName = "cutmix";
  static constexpr std::string_view kMain = "alpha";
  static constexpr std::string_view kMeaning =
      "- `cutmix` covers a rectangle of each image with what its partner has there, and its label "
      "becomes both, by their\n  pixels; cut as torchvision's CutMix: a share of "
      "Beta(`alpha`, `alpha`) (1) of the image, less what lies outside.\n  With `mixup` beside "
      "it each sample gets one of the two, by chance.\n";

  double alpha = 1;
  bool operator==(const Cutmix&) const = default;

  template <class Self, class Visitor>
  static void visit_options(Self& self, Visitor& visitor) {
    visitor.number("alpha", 0.01, 100, self.alpha);
  }

  std::string problem(const tensor::Shape&) const { return ""; }

  // As Mixup's.
  float mix(const tensor::Shape& shape, std::span<const std::uint8_t> partner, const Random& random,
            std::span<std::uint8_t> image) const {
    const double half = 0.5 * std::sqrt(1 - beta_number(alpha, random));
    const auto words = random.words();
    const auto cut = [&](std::uint32_t word, std::int64_t side) {
      const std::int64_t middle = place(word, side);
      const auto reach = static_cast<std::int64_t>(half * static_cast<double>(side));
      return std::pair{std::max<std::int64_t>(0, middle - reach), std::min(side, middle + reach)};
    };
    const auto [top, bottom] = cut(words[0], shape.h);
    const auto [left, right] = cut(words[1], shape.w);
    for (std::int64_t y = top; y < bottom; ++y) {
      const std::int64_t at = (y * shape.w + left) * shape.c;
      std::copy_n(partner.data() + at, (right - left) * shape.c, image.data() + at);
    }
    return 1 - static_cast<float>((bottom - top) * (right - left)) /
                   static_cast<float>(shape.h * shape.w);
  }
};

}  // namespace coxswain::augment
