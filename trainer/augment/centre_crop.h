#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include "trainer/augment/resample.h"

namespace coxswain::augment {

// The middle of `size` x `size`, as torchvision's CenterCrop: what an image lacks is black.
inline Image cut_middle(const Image& image, std::int64_t size, Scratch& scratch) {
  const tensor::Shape& old = image.shape;
  if (old.h == size && old.w == size) return image;
  const auto half_even = [](std::int64_t twice) {  // Python's round(twice / 2)
    const std::int64_t down = twice >= 0 ? twice / 2 : -((1 - twice) / 2);
    return twice % 2 == 0 || down % 2 == 0 ? down : down + 1;
  };
  // Where an image is too small it is padded first, by half of what it lacks, rounded down.
  const std::int64_t pad_y = std::max<std::int64_t>(0, size - old.h) / 2;
  const std::int64_t pad_x = std::max<std::int64_t>(0, size - old.w) / 2;
  const std::int64_t top = old.h < size ? -pad_y : half_even(old.h - size);
  const std::int64_t left = old.w < size ? -pad_x : half_even(old.w - size);
  const tensor::Shape shape{1, old.c, size, size};
  scratch.assign(static_cast<std::size_t>(shape.per_sample()), 0);
  const std::int64_t first = std::max<std::int64_t>(0, -left);
  const std::int64_t last = std::min(size, old.w - left);
  for (std::int64_t y = 0; y < size; ++y) {
    if (y + top < 0 || y + top >= old.h) continue;
    std::copy_n(image.bytes.data() + ((y + top) * old.w + first + left) * old.c,
                (last - first) * old.c, scratch.data() + (y * size + first) * old.c);
  }
  return {shape, scratch};
}

// In training and evaluation alike.
struct CentreCrop {
  static constexpr std::string_view kName = "centre-crop";
  static constexpr std::string_view kMain = "size";
  static constexpr std::string_view kMeaning =
      "- `centre-crop` cuts out the middle of `size` (224) pixels a side; what an image lacks is "
      "black.\n";

  std::int64_t size = 224;
  bool operator==(const CentreCrop&) const = default;

  template <class Self, class Visitor>
  static void visit_options(Self& self, Visitor& visitor) {
    visitor.integer("size", 1, 8192, self.size);
  }

  std::string problem(const tensor::Shape&) const { return ""; }
  tensor::Shape result(const tensor::Shape& shape) const { return {1, shape.c, size, size}; }
  Image settle(const Image& image, Scratch& scratch) const {
    return cut_middle(image, size, scratch);
  }
};

}  // namespace coxswain::augment
