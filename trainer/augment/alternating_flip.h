#pragma once

#include <string>

#include "trainer/augment/flip.h"

namespace coxswain::augment {

// Jordan, "94% on CIFAR-10 in 3.29 Seconds on a Single GPU" (arXiv:2404.00498), section 3.6: chance
// says once for each image in which epochs it is mirrored.
struct AlternatingFlip {
  static constexpr std::string_view kName = "alternating-flip";
  static constexpr std::string_view kMeaning =
      "- `alternating-flip` mirrors each image in every second epoch: half of them in the first, "
      "the "
      "others in the second.\n";

  bool operator==(const AlternatingFlip&) const = default;

  template <class Self, class Visitor>
  static void visit_options(Self&, Visitor&) {}

  std::string problem(const tensor::Shape&) const { return ""; }

  Image apply(const Image& image, const Random& random, Scratch& scratch) const {
    Random once = random;
    once.key.epoch = 0;
    const bool first = once.words()[0] >> 31 == 1;
    return first == (random.key.epoch % 2 == 0) ? mirrored(image, scratch) : image;
  }
};

}  // namespace coxswain::augment
