#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "trainer/augment/image.h"
#include "trainer/contract/words.h"

namespace coxswain::augment {

enum class PadMode { kZero, kSymmetric };
constexpr Words<PadMode, 2> words_of(PadMode) {
  return {{{PadMode::kZero, "zero"}, {PadMode::kSymmetric, "symmetric"}}};
}

enum class CropOffsets { kInclusive, kSinga };
constexpr Words<CropOffsets, 2> words_of(CropOffsets) {
  return {{{CropOffsets::kInclusive, "inclusive"}, {CropOffsets::kSinga, "singa"}}};
}

// Pads by `pad` (zeros, or mirrored as numpy's "symmetric") and crops back to the image's size at a
// random offset: 0..2*pad (inclusive) or 0..2*pad-1 (SINGA's, which never draws the last). The
// first two words are the row and the column.
struct PadCrop {
  static constexpr std::string_view kName = "pad-crop";
  static constexpr std::string_view kMeaning =
      "- `pad-crop` pads each side by `pad` (4), with zeros or mirrored (`mode: zero | symmetric`)"
      ", and\n  cuts an image of the old size at a random place: 0..2 pad (`offsets: inclusive`), "
      "or 0..2 pad - 1\n  as SINGA does (`singa`).\n";

  std::int64_t pad = 4;
  PadMode mode = PadMode::kZero;
  CropOffsets offsets = CropOffsets::kInclusive;
  bool operator==(const PadCrop&) const = default;

  template <class Self, class Visitor>
  static void visit_options(Self& self, Visitor& visitor) {
    visitor.integer("pad", 1, 4096, self.pad);
    visitor.choice("mode", self.mode);
    visitor.choice("offsets", self.offsets);
  }

  std::string problem(const tensor::Shape& shape) const {
    const std::int64_t side = std::min(shape.h, shape.w);
    if (side == 0 || pad < side) return "";
    return fmt::format("pad {} must be below the image's side, {}", pad, side);
  }

  Image apply(const Image& image, const Random& random, Scratch& scratch) const {
    const std::int64_t height = image.shape.h;
    const std::int64_t width = image.shape.w;
    const auto words = random.words();
    const std::int64_t down = shift(words[0]);
    const std::int64_t right = shift(words[1]);
    // Columns [first, last) of the result show the image itself.
    const std::int64_t first = std::clamp<std::int64_t>(-right, 0, width);
    const std::int64_t last = std::clamp<std::int64_t>(width - right, 0, width);
    scratch.resize(image.bytes.size());
    for_channels(image.shape.c, [&](auto channels) {
      std::uint8_t* to = scratch.data();
      for (std::int64_t y = 0; y < height; ++y, to += width * channels) {
        const std::int64_t row = source(y + down, height);
        if (row < 0) {
          std::fill_n(to, width * channels, std::uint8_t{0});
          continue;
        }
        const std::uint8_t* from = image.bytes.data() + row * width * channels;
        std::copy(from + (first + right) * channels, from + (last + right) * channels,
                  to + first * channels);
        const auto fill = [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t x = begin; x < end; ++x) {
            const std::int64_t column = source(x + right, width);
            for (std::int64_t c = 0; c < channels; ++c) {
              to[x * channels + c] = column < 0 ? std::uint8_t{0} : from[column * channels + c];
            }
          }
        };
        fill(0, first);
        fill(last, width);
      }
    });
    return {image.shape, scratch};
  }

 private:
  // Where the crop begins in the padded image, less the pad: -pad..pad.
  std::int64_t shift(std::uint32_t word) const {
    const auto places =
        static_cast<std::uint64_t>(2 * pad + (offsets == CropOffsets::kInclusive ? 1 : 0));
    return static_cast<std::int64_t>((word * places) >> 32) - pad;
  }

  // Which of `side` pixels a place in or beside the image shows; -1 = padding.
  std::int64_t source(std::int64_t place, std::int64_t side) const {
    if (place >= 0 && place < side) return place;
    if (mode == PadMode::kZero) return -1;
    return place < 0 ? -place - 1 : 2 * side - 1 - place;  // numpy's "symmetric" repeats the edge
  }
};

}  // namespace coxswain::augment
