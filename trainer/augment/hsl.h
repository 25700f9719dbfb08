#pragma once

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string>

#include "trainer/augment/colour.h"

namespace coxswain::augment {

// MXNet's max_random_h, _s and _l: in bytes as OpenCV's, hue in 0..180 and the others in 0..255;
// one shift of each for all pixels, cut at the ends of the range. The first three words.
struct Hsl {
  static constexpr std::string_view kName = "hsl";
  static constexpr std::string_view kMain = "most";
  static constexpr std::string_view kMeaning =
      "- `hsl: [36, 50, 50]` shifts hue (of 180), saturation and lightness (of 255) by up to as "
      "much either way; as\n  MXNet's max_random_h, _s and _l.\n";

  std::vector<double> most{36, 50, 50};
  bool operator==(const Hsl&) const = default;

  template <class Self, class Visitor>
  static void visit_options(Self& self, Visitor& visitor) {
    visitor.numbers("most", -1, self.most);
  }

  std::string problem(const tensor::Shape& shape) const {
    if (most.size() != 3) return fmt::format("hsl needs three numbers, got {}", most.size());
    return needs_colours(kName, shape);
  }

  Image apply(const Image& image, const Random& random, Scratch& scratch) const {
    const auto words = random.words();
    std::array<int, 3> shift{};
    for (std::size_t i = 0; i < 3; ++i) {
      shift[i] = static_cast<int>(between(-most[i], most[i], words[i]));
    }
    return with(image, shift, scratch);
  }

  // By hue, saturation and lightness.
  static Image with(const Image& image, const std::array<int, 3>& shift, Scratch& scratch) {
    scratch.resize(image.bytes.size());
    for (std::size_t i = 0; i < image.bytes.size(); i += 3) {
      move(image.bytes.data() + i, shift, scratch.data() + i);
    }
    return {image.shape, scratch};
  }

 private:
  static float rounded(float value) { return std::nearbyint(std::clamp(value, 0.0F, 255.0F)); }

  // OpenCV multiplies: divided by 255, ties would be rounded the other way.
  static void move(const std::uint8_t* from, const std::array<int, 3>& shift, std::uint8_t* to) {
    constexpr float kUnit = 1.0F / 255.0F;
    const float red = static_cast<float>(from[0]) * kUnit;
    const float green = static_cast<float>(from[1]) * kUnit;
    const float blue = static_cast<float>(from[2]) * kUnit;
    const float high = std::max({red, green, blue});
    const float low = std::min({red, green, blue});
    const float spread = high - low;
    float light = (high + low) * 0.5F;
    float hue = 0;
    float saturation = 0;
    if (spread > 1.1920929e-7F) {
      saturation = light < 0.5F ? spread / (high + low) : spread / (2 - high - low);
      const float unit = 60 / spread;
      if (high == red) {
        hue = (green - blue) * unit;
      } else if (high == green) {
        hue = (blue - red) * unit + 120;
      } else {
        hue = (red - green) * unit + 240;
      }
      if (hue < 0) hue += 360;
    }
    const auto moved = [](float value, int by, float most_of) {
      return std::clamp(rounded(value) + static_cast<float>(by), 0.0F, most_of);
    };
    hue = moved(hue * 0.5F, shift[0], 180) / 30;
    saturation = moved(saturation * 255, shift[1], 255) * kUnit;
    light = moved(light * 255, shift[2], 255) * kUnit;
    const float top =
        light <= 0.5F ? light * (1 + saturation) : light + saturation - light * saturation;
    const float bottom = 2 * light - top;
    const auto channel = [&](float sixths) {
      const float at = sixths < 0 ? sixths + 6 : sixths >= 6 ? sixths - 6 : sixths;
      float part = 0;
      if (at < 1) {
        part = at;
      } else if (at < 3) {
        part = 1;
      } else if (at < 4) {
        part = 4 - at;
      }
      return static_cast<std::uint8_t>(rounded((bottom + (top - bottom) * part) * 255));
    };
    to[0] = channel(hue + 2);
    to[1] = channel(hue);
    to[2] = channel(hue - 2);
  }
};

}  // namespace coxswain::augment
