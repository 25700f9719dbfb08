#pragma once

#include <zlib.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "trainer/augment/image.h"

// What other programs made of a picture, as tests/golden/picture/make.py left it.
namespace coxswain::test {

inline std::vector<std::uint8_t> file_bytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::filesystem::path picture_file(const std::string& name) {
  return std::filesystem::path("tests/golden/picture") / name;
}

// A PNG whose header, checksum and all, says so many pixels.
inline std::vector<std::uint8_t> png_that_says(std::uint32_t width, std::uint32_t height) {
  std::vector<std::uint8_t> png = file_bytes(picture_file("rgb.png"));
  const auto put = [&](std::size_t at, std::uint64_t value) {
    for (int i = 0; i < 4; ++i) {
      png.at(at + static_cast<std::size_t>(i)) = static_cast<std::uint8_t>(value >> (24 - 8 * i));
    }
  };
  put(16, width);
  put(20, height);
  put(29, crc32(0, png.data() + 12, 17));
  return png;
}

struct Ppm {
  tensor::Shape shape;
  std::vector<std::uint8_t> pixels;  // (H, W, 3)
};

inline Ppm read_ppm(const std::string& name) {
  const auto bytes = file_bytes(picture_file(name));
  int width = 0;
  int height = 0;
  int header = 0;
  const std::string text(bytes.begin(),
                         bytes.begin() + std::min<std::ptrdiff_t>(32, std::ssize(bytes)));
  if (std::sscanf(text.c_str(), "P6 %d %d 255%n", &width, &height, &header) != 2 || header == 0)
    throw std::runtime_error("no PPM: " + name);
  return {{1, 3, height, width}, {bytes.begin() + header + 1, bytes.end()}};
}

// The largest difference of two pixels' values; 256 where they are not as many.
inline int difference(std::span<const std::uint8_t> some, std::span<const std::uint8_t> others) {
  if (some.size() != others.size()) return 256;
  int most = 0;
  for (std::size_t i = 0; i < some.size(); ++i)
    most = std::max(most, std::abs(some[i] - others[i]));
  return most;
}

}  // namespace coxswain::test
