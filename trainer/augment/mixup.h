#pragma once

#include <string>

#include "trainer/augment/beta.h"

namespace coxswain::augment {

// Zhang and others, arXiv:1710.09412. Of bytes: what they are normalised to follows, since that is
// linear, but for what a whole byte leaves out.
struct Mixup {
  static constexpr std::string_view kName = "mixup";
  static constexpr std::string_view kMain = "alpha";
  static constexpr std::string_view kMeaning =
      "- `mixup` makes of each image the weighted mean with its partner, and of its label both, "
      "by their weights; the\n  weight is a number of Beta(`alpha`, `alpha`) (0.2). The partner is "
      "the sample before it in the step, over\n  all ranks, as in torchvision's MixUp; each "
      "sample has a weight of its own (torchvision: each batch). With\n  `labelSmoothing` as "
      "torch's CrossEntropyLoss of probabilities; training accuracy counts the label of the\n  "
      "greater weight, as torchvision's scripts. Last, before `normalise`.\n";

  double alpha = 0.2;
  bool operator==(const Mixup&) const = default;

  template <class Self, class Visitor>
  static void visit_options(Self& self, Visitor& visitor) {
    visitor.number("alpha", 0.01, 100, self.alpha);
  }

  std::string problem(const tensor::Shape&) const { return ""; }

  // Image and partner are of this shape, (H, W, C). Returns the image's share.
  float mix(const tensor::Shape&, std::span<const std::uint8_t> partner, const Random& random,
            std::span<std::uint8_t> image) const {
    constexpr std::uint32_t kOne = 1U << 16;
    const auto weight = static_cast<std::uint32_t>(std::lround(beta_number(alpha, random) * kOne));
    for (std::size_t i = 0; i < image.size(); ++i) {
      image[i] = static_cast<std::uint8_t>(
          (weight * image[i] + (kOne - weight) * partner[i] + kOne / 2) >> 16);
    }
    return static_cast<float>(weight) / kOne;
  }
};

}  // namespace coxswain::augment
