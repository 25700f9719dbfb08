#include "trainer/picture/decode.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "trainer/picture/formats.h"

namespace coxswain::picture {

namespace {

constexpr std::string_view kPngSignature = "\x89PNG\r\n\x1a\n";
constexpr std::string_view kJpegSignature = "\xff\xd8\xff";

bool has_at(std::span<const std::uint8_t> bytes, std::size_t offset, std::string_view text) {
  return bytes.size() >= offset + text.size() &&
         std::ranges::equal(bytes.subspan(offset, text.size()), text, {}, {},
                            [](char c) { return static_cast<std::uint8_t>(c); });
}

// What people have under a picture's name, and how it begins.
std::string_view other_format(std::span<const std::uint8_t> bytes) {
  if (has_at(bytes, 0, "RIFF") && has_at(bytes, 8, "WEBP")) return "WebP";
  if (has_at(bytes, 0, "GIF8")) return "GIF";
  if (has_at(bytes, 0, "BM")) return "BMP";
  if (has_at(bytes, 0, std::string_view("II*\0", 4)) ||
      has_at(bytes, 0, std::string_view("MM\0*", 4)))
    return "TIFF";
  if (has_at(bytes, 4, "ftyp")) return "HEIC or AVIF";
  return "";
}

Decoded read(std::span<const std::uint8_t> bytes, const DecodeOptions& options, bool header_alone,
             augment::Scratch& pixels) {
  switch (kind_of(bytes)) {
    case PictureKind::kJpeg:
      return decode_jpeg(bytes, options, header_alone, pixels);
    case PictureKind::kPng:
      return decode_png(bytes, options, header_alone, pixels);
    case PictureKind::kOther:
      break;
  }
  if (bytes.empty()) return {.shape = {}, .problem = "is empty"};
  const std::string_view other = other_format(bytes);
  if (other.empty()) return {.shape = {}, .problem = "is neither JPEG nor PNG"};
  return {.shape = {}, .problem = fmt::format("is {}; JPEG and PNG can be read", other)};
}

}  // namespace

PictureKind kind_of(std::span<const std::uint8_t> bytes) {
  if (has_at(bytes, 0, kJpegSignature)) return PictureKind::kJpeg;
  if (has_at(bytes, 0, kPngSignature)) return PictureKind::kPng;
  return PictureKind::kOther;
}

Decoded decode(std::span<const std::uint8_t> bytes, const DecodeOptions& options,
               augment::Scratch& pixels) {
  return read(bytes, options, false, pixels);
}

Decoded measure(std::span<const std::uint8_t> bytes, const DecodeOptions& options) {
  augment::Scratch none;
  return read(bytes, options, true, none);
}

std::string size_problem(std::int64_t height, std::int64_t width) {
  if (height < 1 || width < 1) return fmt::format("is an empty picture of {}x{}", width, height);
  if (height <= kMostPixels / width) return "";
  return fmt::format("has {}x{} pixels, over the limit of {}", width, height, kMostPixels);
}

void to_grey(augment::Scratch& pixels, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint8_t* p = pixels.data() + 3 * i;
    const int sum = p[0] * 19595 + p[1] * 38470 + p[2] * 7471 + 0x8000;
    pixels[i] = static_cast<std::uint8_t>(sum >> 16);
  }
}

}  // namespace coxswain::picture
