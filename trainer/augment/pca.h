#pragma once

#include <array>
#include <cmath>
#include <string>

#include "trainer/augment/colour.h"

namespace coxswain::augment {

// AlexNet's noise of colour (Krizhevsky et al., NIPS 2012, section 4.1) with MXNet's numbers: three
// normal values along the axes in which ImageNet's colours vary.
struct Pca {
  static constexpr std::string_view kName = "pca";
  static constexpr std::string_view kMain = "deviation";
  static constexpr std::string_view kMeaning =
      "- `pca` shifts all of an image's pixels along the axes in which ImageNet's colours vary, by "
      "normal noise of\n  `deviation` (0.1); as MXNet's pca_noise.\n";

  double deviation = 0.1;
  bool operator==(const Pca&) const = default;

  template <class Self, class Visitor>
  static void visit_options(Self& self, Visitor& visitor) {
    visitor.number("deviation", 0, 10, self.deviation);
  }

  std::string problem(const tensor::Shape& shape) const { return needs_colours(kName, shape); }

  Image apply(const Image& image, const Random& random, Scratch& scratch) const {
    const auto words = random.words();
    const auto first = tensor::to_normal(words[0], words[1]);
    const auto second = tensor::to_normal(words[2], words[3]);
    const auto size = static_cast<float>(deviation);
    return with(image, {size * first[0], size * first[1], size * second[0]}, scratch);
  }

  static Image with(const Image& image, const std::array<float, 3>& alpha, Scratch& scratch) {
    constexpr std::array<float, 3> kValues{55.46F, 4.794F, 1.148F};
    constexpr float kVectors[3][3] = {{-0.5675F, 0.7192F, 0.4009F},
                                      {-0.5808F, -0.0045F, -0.8140F},
                                      {-0.5836F, -0.6948F, 0.4203F}};
    std::array<float, 3> shift{};
    for (std::size_t c = 0; c < 3; ++c) {
      for (std::size_t k = 0; k < 3; ++k) shift[c] += kVectors[c][k] * alpha[k] * kValues[k];
    }
    scratch.resize(image.bytes.size());
    for (std::size_t i = 0; i < image.bytes.size(); ++i) {
      const float value =
          std::clamp(static_cast<float>(image.bytes[i]) + shift[i % 3], 0.0F, 255.0F);
      scratch[i] = static_cast<std::uint8_t>(std::nearbyint(value));
    }
    return {image.shape, scratch};
  }
};

}  // namespace coxswain::augment
