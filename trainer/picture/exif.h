#pragma once

#include <cstdint>
#include <span>

namespace coxswain::picture {

// How a picture is to be turned, 1..8, by an Exif segment (from "Exif\0\0" on); 1 where it does not
// say. Exif 2.3, 4.6.4: tag 0x0112 of the first directory.
int orientation_of(std::span<const std::uint8_t> exif);

// Writes (H, W, C) turned upright into `out`: orientations 5 to 8 swap the sides.
void turn(std::span<const std::uint8_t> pixels, std::int64_t height, std::int64_t width,
          std::int64_t channels, int orientation, std::span<std::uint8_t> out);

}  // namespace coxswain::picture
