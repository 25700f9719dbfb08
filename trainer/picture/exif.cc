#include "trainer/picture/exif.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace coxswain::picture {

namespace {

constexpr std::size_t kHeader = 6;  // "Exif\0\0"
constexpr std::uint32_t kOrientation = 0x0112;

// Numbers in the byte order of the file, anywhere in it; what is beyond its end is 0.
struct Numbers {
  std::span<const std::uint8_t> bytes;
  bool big = false;

  std::uint32_t at(std::size_t offset, std::size_t size) const {
    if (offset > bytes.size() || size > bytes.size() - offset) return 0;
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < size; ++i) {
      value |= std::uint32_t{bytes[offset + (big ? size - 1 - i : i)]} << (8 * i);
    }
    return value;
  }
};

}  // namespace

int orientation_of(std::span<const std::uint8_t> exif) {
  constexpr std::string_view kBegin("Exif\0\0", kHeader);
  if (exif.size() < kHeader + 8 || !std::ranges::equal(exif.first(kHeader), kBegin)) return 1;
  Numbers tiff{exif.subspan(kHeader)};
  tiff.big = tiff.bytes[0] == 'M';
  const std::size_t directory = tiff.at(4, 4);
  const std::uint32_t entries = tiff.at(directory, 2);
  for (std::uint32_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + std::size_t{12} * i;
    if (entry + 12 > tiff.bytes.size()) break;
    if (tiff.at(entry, 2) != kOrientation) continue;
    const std::uint32_t value = tiff.at(entry + 8, 2);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

void turn(std::span<const std::uint8_t> pixels, std::int64_t height, std::int64_t width,
          std::int64_t channels, int orientation, std::span<std::uint8_t> out) {
  const bool swaps = orientation >= 5;
  // 2, 3, 7, 8 mirror the stored columns, and 3, 4, 6, 7 the stored rows.
  const bool from_right =
      orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_below =
      orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const std::int64_t rows = swaps ? width : height;
  const std::int64_t columns = swaps ? height : width;
  std::uint8_t* to = out.data();
  for (std::int64_t y = 0; y < rows; ++y) {
    for (std::int64_t x = 0; x < columns; ++x, to += channels) {
      std::int64_t row = swaps ? x : y;
      std::int64_t column = swaps ? y : x;
      if (from_below) row = height - 1 - row;
      if (from_right) column = width - 1 - column;
      std::copy_n(pixels.data() + (row * width + column) * channels, channels, to);
    }
  }
}

}  // namespace coxswain::picture
