#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/augment/image.h"

namespace coxswain::picture {

// Value. A sample on a sheet: its pixels, (H, W, C), and what is written below, a line each.
struct Labelled {
  std::vector<std::uint8_t> pixels;
  std::vector<std::string> lines;
};

// Value. An image with its pixels.
struct Drawn {
  tensor::Shape shape;  // (1, 3, H, W)
  std::vector<std::uint8_t> pixels;
};

// How large a sheet of so many samples of this shape, of one channel or three, would be.
tensor::Shape sheet_shape(std::size_t count, const tensor::Shape& sample, std::size_t lines);

// All samples in rows, about as wide as high; small ones are drawn larger, each pixel as a square.
// Text is in capitals; a letter that the font lacks is a question mark; lines end where their
// picture does.
Drawn draw_sheet(std::span<const Labelled> samples, const tensor::Shape& sample);

}  // namespace coxswain::picture
