#include "trainer/data/augment.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <string>
#include <utility>

#include "trainer/contract/error.h"
#include "trainer/tensor/philox.h"

namespace coxswain::data {

namespace {

constexpr std::int64_t kPixelValues = 256;

[[noreturn]] void refuse(const std::string& why) {
  throw Error(ExitCode::kBadInput, "[data] augment: " + why);
}

float normalised(const Preprocessing& steps, std::size_t channel, std::uint8_t pixel) {
  const float mean = steps.mean.empty() ? 0.0F : steps.mean[channel];
  const float deviation = steps.std.empty() ? 1.0F : steps.std[channel];
  return (static_cast<float>(pixel) / 255.0F - mean) / deviation;
}

std::vector<std::uint32_t> streams_of(const std::vector<Augmentation>& augmentations) {
  std::vector<std::uint32_t> streams;
  std::array<int, std::variant_size_v<Augmentation>> seen{};
  for (const Augmentation& augmentation : augmentations) {
    std::string name = std::holds_alternative<PadCrop>(augmentation) ? "pad-crop" : "flip";
    if (const int before = seen[augmentation.index()]++; before > 0) {
      name += fmt::format("#{}", before);
    }
    streams.push_back(tensor::stream_of(name));
  }
  return streams;
}

std::array<std::uint32_t, 4> draw(const SampleKey& key, std::uint32_t stream) {
  return tensor::philox(key.seed, {static_cast<std::uint32_t>(key.sample_id),
                                   static_cast<std::uint32_t>(key.epoch), stream, 0});
}

bool mirrors(const std::array<std::uint32_t, 4>& words) { return words[0] >> 31 != 0; }

// Where the crop begins in the padded image, less the pad: -pad..pad.
std::int64_t crop_shift(const PadCrop& crop, std::uint32_t word) {
  if (crop.pad == 0) return 0;
  const int last = crop.offsets == CropOffsets::kInclusive ? 1 : 0;
  const auto offsets = static_cast<std::uint64_t>(2 * crop.pad + last);
  return static_cast<std::int64_t>((word * offsets) >> 32) - crop.pad;
}

// Which of `side` pixels a place in or beside the image shows; -1 = padding.
std::int64_t padded_source(PadMode mode, std::int64_t place, std::int64_t side) {
  if (place >= 0 && place < side) return place;
  if (mode == PadMode::kZero) return -1;
  return place < 0 ? -place - 1 : 2 * side - 1 - place;  // numpy's "symmetric" repeats the edge
}

std::vector<std::uint8_t> cropped(const PadCrop& crop, const std::array<std::uint32_t, 4>& words,
                                  tensor::Shape shape, const std::vector<std::uint8_t>& image) {
  const std::int64_t down = crop_shift(crop, words[0]);
  const std::int64_t right = crop_shift(crop, words[1]);
  std::vector<std::uint8_t> result(image.size());
  std::size_t next = 0;
  for (std::int64_t c = 0; c < shape.c; ++c) {
    for (std::int64_t y = 0; y < shape.h; ++y) {
      for (std::int64_t x = 0; x < shape.w; ++x) {
        const std::int64_t row = padded_source(crop.mode, y + down, shape.h);
        const std::int64_t column = padded_source(crop.mode, x + right, shape.w);
        const bool padding = row < 0 || column < 0;
        const auto source = static_cast<std::size_t>((c * shape.h + row) * shape.w + column);
        result[next++] = padding ? std::uint8_t{0} : image[source];
      }
    }
  }
  return result;
}

}  // namespace

void check(const Preprocessing& steps, tensor::Shape sample) {
  const auto channels = static_cast<std::size_t>(sample.c);
  for (const auto& [name, values] :
       {std::pair{"mean", &steps.mean}, std::pair{"std", &steps.std}}) {
    if (!values->empty() && values->size() != channels) {
      refuse(fmt::format("normalise: {} {} values, the images have {} channels", values->size(),
                         name, channels));
    }
    for (const float value : *values) {
      if (!std::isfinite(value)) refuse(fmt::format("normalise: {} {} is not finite", name, value));
    }
  }
  for (const float value : steps.std) {
    if (value <= 0.0F) refuse(fmt::format("normalise: std {}, expected more than 0", value));
  }
  for (const Augmentation& augmentation : steps.augmentations) {
    const auto* crop = std::get_if<PadCrop>(&augmentation);
    if (crop != nullptr && (crop->pad < 0 || crop->pad >= std::min(sample.h, sample.w))) {
      refuse(fmt::format("pad-crop: pad {}, expected 0..{} for images of {}x{}", crop->pad,
                         std::min(sample.h, sample.w) - 1, sample.h, sample.w));
    }
  }
}

void preprocess(const Preprocessing& steps, bool training, const SampleKey& key,
                tensor::Shape sample, std::span<const std::uint8_t> pixels, std::span<float> out) {
  check(steps, sample);
  const auto plane = static_cast<std::size_t>(sample.h * sample.w);
  assert(pixels.size() == plane * static_cast<std::size_t>(sample.c) &&
         out.size() == pixels.size());
  std::vector<std::uint8_t> image(pixels.begin(), pixels.end());
  const std::vector<std::uint32_t> streams = streams_of(steps.augmentations);
  for (std::size_t i = 0; training && i < streams.size(); ++i) {
    const std::array<std::uint32_t, 4> words = draw(key, streams[i]);
    if (const auto* crop = std::get_if<PadCrop>(&steps.augmentations[i])) {
      image = cropped(*crop, words, sample, image);
    } else if (mirrors(words)) {
      for (auto row = image.begin(); row != image.end(); row += sample.w) {
        std::reverse(row, row + sample.w);
      }
    }
  }
  for (std::size_t i = 0; i < image.size(); ++i) out[i] = normalised(steps, i / plane, image[i]);
}

Preprocessor::Preprocessor(Preprocessing steps, tensor::Shape sample)
    : steps_(std::move(steps)), sample_(sample), streams_(streams_of(steps_.augmentations)) {
  check(steps_, sample_);
  table_.reserve(static_cast<std::size_t>(sample.c * kPixelValues));
  for (std::int64_t c = 0; c < sample.c; ++c) {
    for (std::int64_t pixel = 0; pixel < kPixelValues; ++pixel) {
      table_.push_back(
          normalised(steps_, static_cast<std::size_t>(c), static_cast<std::uint8_t>(pixel)));
    }
  }
  source_row_.resize(static_cast<std::size_t>(sample.h));
  source_column_.resize(static_cast<std::size_t>(sample.w));
  line_.resize(static_cast<std::size_t>(sample.w) + 1);
}

// Rows and columns move independently of each other, so that any list of augmentations is one map
// of rows and one of columns: from the last augmentation back to the first, each says what the
// place shows before it.
void Preprocessor::find_sources(const SampleKey& key) {
  for (std::size_t y = 0; y < source_row_.size(); ++y) {
    source_row_[y] = static_cast<std::int32_t>(y);
  }
  for (std::size_t x = 0; x < source_column_.size(); ++x) {
    source_column_[x] = static_cast<std::int32_t>(x);
  }
  const auto shift = [](std::vector<std::int32_t>& places, PadMode mode, std::int64_t by) {
    const auto side = static_cast<std::int64_t>(places.size());
    for (std::int32_t& place : places) {
      if (place >= 0) place = static_cast<std::int32_t>(padded_source(mode, place + by, side));
    }
  };
  for (std::size_t i = streams_.size(); i-- > 0;) {
    const std::array<std::uint32_t, 4> words = draw(key, streams_[i]);
    if (const auto* crop = std::get_if<PadCrop>(&steps_.augmentations[i])) {
      shift(source_row_, crop->mode, crop_shift(*crop, words[0]));
      shift(source_column_, crop->mode, crop_shift(*crop, words[1]));
    } else if (mirrors(words)) {
      const auto last = static_cast<std::int32_t>(sample_.w) - 1;
      for (std::int32_t& place : source_column_) place = place < 0 ? place : last - place;
    }
  }
  // Padding reads the pixel behind the line.
  for (std::int32_t& place : source_column_) {
    if (place < 0) place = static_cast<std::int32_t>(sample_.w);
  }
}

void Preprocessor::run(bool training, const SampleKey& key, std::span<const std::uint8_t> pixels,
                       std::span<float> out) {
  assert(pixels.size() == static_cast<std::size_t>(sample_.per_sample()));
  assert(out.size() == pixels.size());
  const bool moved = training && !steps_.augmentations.empty();
  if (moved) find_sources(key);
  const auto width = static_cast<std::size_t>(sample_.w);
  const auto plane = static_cast<std::size_t>(sample_.h) * width;
  for (std::size_t c = 0; c < static_cast<std::size_t>(sample_.c); ++c) {
    const float* table = table_.data() + c * kPixelValues;
    const std::uint8_t* source = pixels.data() + c * plane;
    float* target = out.data() + c * plane;
    if (!moved) {
      for (std::size_t i = 0; i < plane; ++i) target[i] = table[source[i]];
      continue;
    }
    for (const std::int32_t row : source_row_) {
      if (row < 0) {
        std::fill_n(target, width, table[0]);
      } else {
        std::copy_n(source + static_cast<std::size_t>(row) * width, width, line_.data());
        for (std::size_t x = 0; x < width; ++x) {
          target[x] = table[line_[static_cast<std::size_t>(source_column_[x])]];
        }
      }
      target += width;
    }
  }
}

}  // namespace coxswain::data
