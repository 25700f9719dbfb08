#pragma once

#include "trainer/augment/image.h"
#include "trainer/contract/words.h"

namespace coxswain::augment {

// bilinear: of the four nearest pixels, as OpenCV's INTER_LINEAR and so MXNet. antialias: of all
// pixels that a new one covers, as Pillow's BILINEAR and so torchvision on PIL images.
enum class Interpolation { kBilinear, kAntialias };
constexpr Words<Interpolation, 2> words_of(Interpolation) {
  return {{{Interpolation::kBilinear, "bilinear"}, {Interpolation::kAntialias, "antialias"}}};
}

// A part of an image.
struct Box {
  std::int64_t y = 0;
  std::int64_t x = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
};

inline Box whole(const tensor::Shape& shape) { return {0, 0, shape.h, shape.w}; }

// The box, which lies in the image, cut out.
Image crop(const Image& image, const Box& box, Scratch& scratch);

// The box, as if it were cut out, at another size.
Image resample(const Image& image, const Box& box, std::int64_t height, std::int64_t width,
               Interpolation interpolation, Scratch& scratch);

}  // namespace coxswain::augment
