#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "trainer/augment/image.h"

namespace coxswain::picture {

// As many pixels as a picture may have: one that says more is refused before any memory is taken.
constexpr std::int64_t kMostPixels = std::int64_t{1} << 26;

struct DecodeOptions {
  std::int64_t channels = 3;       // 3: red, green, blue; 1: grey
  bool apply_orientation = false;  // of a JPEG's Exif; else as stored
  // JPEG: by 1/8 to 1/2 smaller while both sides stay at least this; 0: as large as it is.
  std::int64_t least_side = 0;
};

// Value. What became of bytes; with a problem there is no image.
struct Decoded {
  tensor::Shape shape;  // (1, C, H, W)
  std::string problem;  // "is WebP; JPEG and PNG can be read"; empty: none
};

enum class PictureKind { kJpeg, kPng, kOther };

// By the first bytes, whatever a name says.
PictureKind kind_of(std::span<const std::uint8_t> bytes);

// JPEG or PNG, as Pillow's convert("RGB") or convert("L") reads it: PNG to the bit, JPEG within 1
// of 255; transparency is left out, 16 bits are divided by 257. Any bytes are an image in
// `pixels`, (H, W, C), or a problem in words.
Decoded decode(std::span<const std::uint8_t> bytes, const DecodeOptions& options,
               augment::Scratch& pixels);

// How large it is by its header, without the pixels.
Decoded measure(std::span<const std::uint8_t> bytes, const DecodeOptions& options);

}  // namespace coxswain::picture
