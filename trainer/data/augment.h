#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "trainer/options/options.h"
#include "trainer/tensor/shape.h"

namespace coxswain::data {

// Pads by `pad` (zeros, or mirrored as numpy's "symmetric") and crops back to the sample's size at
// a random offset: 0..2*pad (inclusive) or 0..2*pad-1 (SINGA's, which never draws the last).
struct PadCrop {
  int pad = 4;
  PadMode mode = PadMode::kZero;
  CropOffsets offsets = CropOffsets::kInclusive;
  bool operator==(const PadCrop&) const = default;
};

// Mirrors left and right with probability 1/2.
struct Flip {
  bool operator==(const Flip&) const = default;
};

using Augmentation = std::variant<PadCrop, Flip>;

// Value. From stored pixels to what the model reads: x = (pixel/255 - mean[c]) / std[c], in float32
// and in this order. Padding is pixel 0. Evaluation normalises alone.
struct Preprocessing {
  std::vector<Augmentation> augmentations;  // in order; training only
  std::vector<float> mean;                  // one a channel; empty = 0
  std::vector<float> std;                   // one a channel; empty = 1
  bool operator==(const Preprocessing&) const = default;
};

// What a sample's random numbers are keyed by (docs/design.md, "Random numbers"): equal on whatever
// rank reads it.
//
// Streams are "pad-crop" and "flip", "flip#1" for the second flip of the list, and so on; index is
// 0. Of the four words the first two are the crop's row and column, or the first one's upper bit
// says "mirror".
struct SampleKey {
  std::uint64_t seed = 0;
  std::int64_t sample_id = 0;
  std::int64_t epoch = 0;
};

// Throws Error (65) when the steps do not suit samples of this shape: another number of means or
// deviations than channels, a deviation that is not positive, a pad that is negative or not less
// than a side.
void check(const Preprocessing& steps, tensor::Shape sample);

// Writes one sample, (C, H, W), into `out`: step by step, the specification of Preprocessor.
void preprocess(const Preprocessing& steps, bool training, const SampleKey& key,
                tensor::Shape sample, std::span<const std::uint8_t> pixels, std::span<float> out);

// Resource. The same, to the bit, in one pass from bytes to floats: for many samples of one shape,
// on one thread.
class Preprocessor {
 public:
  Preprocessor(Preprocessing steps, tensor::Shape sample);  // throws as check()

  void run(bool training, const SampleKey& key, std::span<const std::uint8_t> pixels,
           std::span<float> out);

 private:
  void find_sources(const SampleKey& key);

  Preprocessing steps_;
  tensor::Shape sample_;
  std::vector<std::uint32_t> streams_;  // one an augmentation
  std::vector<float> table_;            // (C, 256): the output for each pixel value
  std::vector<std::int32_t>
      source_row_;  // (H): which row of the image an output row shows; -1 = padding
  std::vector<std::int32_t> source_column_;  // (W)
  std::vector<std::uint8_t> line_;           // (W + 1): one source row, then the padding's pixel
};

}  // namespace coxswain::data
