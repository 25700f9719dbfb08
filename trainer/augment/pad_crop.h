#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "trainer/augment/centre_crop.h"
#include "trainer/augment/image.h"
#include "trainer/contract/words.h"

namespace coxswain::augment {

enum class PadMode { kZero, kSymmetric, kReflect, kFill };
constexpr Words<PadMode, 4> words_of(PadMode) {
  return {{{PadMode::kZero, "zero"},
           {PadMode::kSymmetric, "symmetric"},
           {PadMode::kReflect, "reflect"},
           {PadMode::kFill, "fill"}}};
}

enum class CropOffsets { kInclusive, kSinga };
constexpr Words<CropOffsets, 2> words_of(CropOffsets) {
  return {{{CropOffsets::kInclusive, "inclusive"}, {CropOffsets::kSinga, "singa"}}};
}

// Pads by `pad` (with a value, or mirrored as numpy's "symmetric" and "reflect") and crops to
// `size`, or back to the image's own, at a random offset: of all places (inclusive), or all but the
// last (SINGA's). The first two words are the row and the column.
struct PadCrop {
  static constexpr std::string_view kName = "pad-crop";
  static constexpr std::string_view kMeaning =
      "- `pad-crop` pads each side by `pad` (4), with zeros, mirrored with the edge twice or once, "
      "or with `fill` (127)\n  (`mode: zero | symmetric | reflect | fill`), and cuts an image of "
      "`size` pixels a side (0: the old size) at a\n  random place: any (`offsets: inclusive`), or "
      "any but the last, as SINGA does (`singa`). In evaluation the\n  middle of `size`.\n";

  std::int64_t pad = 4;
  PadMode mode = PadMode::kZero;
  CropOffsets offsets = CropOffsets::kInclusive;
  std::int64_t size = 0;
  std::int64_t fill = 127;
  bool operator==(const PadCrop&) const = default;

  template <class Self, class Visitor>
  static void visit_options(Self& self, Visitor& visitor) {
    visitor.integer("pad", 0, 4096, self.pad);
    visitor.choice("mode", self.mode);
    visitor.choice("offsets", self.offsets);
    visitor.integer("size", 0, 8192, self.size);
    visitor.integer("fill", 0, 255, self.fill);
  }

  std::string problem(const tensor::Shape& shape) const {
    const std::int64_t side = std::min(shape.h, shape.w);
    if (side == 0) return "";
    if (pad >= side) return fmt::format("pad {} must be below the image's side, {}", pad, side);
    if (size <= side + 2 * pad) return "";
    return fmt::format("pad-crop can't cut {} pixels from {} and {} on each side", size, side, pad);
  }

  tensor::Shape result(const tensor::Shape& shape) const {
    return size == 0 ? shape : tensor::Shape{1, shape.c, size, size};
  }

  Image settle(const Image& image, Scratch& scratch) const {
    return size == 0 ? image : cut_middle(image, size, scratch);
  }

  Image apply(const Image& image, const Random& random, Scratch& scratch) const {
    const tensor::Shape made = result(image.shape);
    const std::int64_t width = made.w;
    const auto words = random.words();
    const std::int64_t down = shift(words[0], image.shape.h, made.h);
    const std::int64_t right = shift(words[1], image.shape.w, width);
    // Columns [first, last) of the result show the image itself.
    const std::int64_t first = std::clamp<std::int64_t>(-right, 0, width);
    const std::int64_t last = std::clamp<std::int64_t>(image.shape.w - right, 0, width);
    const std::uint8_t padding = mode == PadMode::kFill ? static_cast<std::uint8_t>(fill) : 0;
    scratch.resize(static_cast<std::size_t>(made.per_sample()));
    for_channels(image.shape.c, [&](auto channels) {
      std::uint8_t* to = scratch.data();
      for (std::int64_t y = 0; y < made.h; ++y, to += width * channels) {
        const std::int64_t row = source(y + down, image.shape.h);
        if (row < 0) {
          std::fill_n(to, width * channels, padding);
          continue;
        }
        const std::uint8_t* from = image.bytes.data() + row * image.shape.w * channels;
        std::copy(from + (first + right) * channels, from + (last + right) * channels,
                  to + first * channels);
        const auto pad_columns = [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t x = begin; x < end; ++x) {
            const std::int64_t column = source(x + right, image.shape.w);
            for (std::int64_t c = 0; c < channels; ++c) {
              to[x * channels + c] = column < 0 ? padding : from[column * channels + c];
            }
          }
        };
        pad_columns(0, first);
        pad_columns(last, width);
      }
    });
    return {made, scratch};
  }

 private:
  // Where the crop of `to` pixels begins in the padded side of `from`, less the pad.
  std::int64_t shift(std::uint32_t word, std::int64_t from, std::int64_t to) const {
    const std::int64_t beyond = from + 2 * pad - to;
    const std::int64_t places = beyond + (offsets == CropOffsets::kInclusive ? 1 : 0);
    return place(word, std::max<std::int64_t>(places, 1)) - pad;
  }

  // Which of `side` pixels a place in or beside the image shows; -1 = padding.
  std::int64_t source(std::int64_t at, std::int64_t side) const {
    if (at >= 0 && at < side) return at;
    if (mode == PadMode::kZero || mode == PadMode::kFill) return -1;
    const std::int64_t edge = mode == PadMode::kSymmetric ? 1 : 0;  // shown twice
    return at < 0 ? -at - edge : 2 * side - 2 + edge - at;
  }
};

}  // namespace coxswain::augment
