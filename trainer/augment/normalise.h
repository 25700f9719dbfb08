#pragma once

#include <fmt/format.h>

#include <string>

#include "trainer/augment/image.h"

namespace coxswain::augment {

// One value a channel, of pixels in 0..1; in evaluation too. It makes no image of an image: what
// the model reads is made of the bytes by pixel_table.
struct Normalise {
  static constexpr std::string_view kName = "normalise";
  static constexpr std::string_view kMeaning =
      "- `normalise` subtracts `mean` and divides by `std`, one number a channel; once, and "
      "last.\n";

  std::vector<double> mean;
  std::vector<double> std;
  bool operator==(const Normalise&) const = default;

  template <class Self, class Visitor>
  static void visit_options(Self& self, Visitor& visitor) {
    visitor.numbers("mean", -1e6, self.mean);
    visitor.numbers("std", 0, self.std);
  }

  std::string problem(const tensor::Shape& shape) const {
    const auto channels = static_cast<std::size_t>(shape.c);
    if (mean.size() == std.size() && (channels == 0 || mean.size() == channels)) return "";
    return fmt::format("normalise needs as many mean and std as channels{}, got {} and {}",
                       channels > 0 ? fmt::format(" ({})", channels) : "", mean.size(), std.size());
  }
};

// What each value of a byte becomes, (C, 256): x = (pixel/255 - mean[c]) / std[c], in float32 and
// in this order. Without normalisation: pixel/255.
inline std::vector<float> pixel_table(const Normalise* normalise, std::int64_t channels) {
  std::vector<float> table;
  for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c) {
    const float mean = normalise == nullptr ? 0.0F : static_cast<float>(normalise->mean[c]);
    const float deviation = normalise == nullptr ? 1.0F : static_cast<float>(normalise->std[c]);
    for (int pixel = 0; pixel < tensor::kPixelValues; ++pixel) {
      table.push_back((static_cast<float>(pixel) / 255.0F - mean) / deviation);
    }
  }
  return table;
}

}  // namespace coxswain::augment
