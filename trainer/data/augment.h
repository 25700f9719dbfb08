#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "trainer/tensor/shape.h"

namespace coxswain::data {

// Pads by `pad` (zeros, or mirrored as numpy's "symmetric") and crops back to the sample's size at a random
// offset: 0..2*pad (inclusive) or 0..2*pad-1 (SINGA's, which never draws the last).
struct PadCrop {
  int pad = 4;
  enum class Mode { kZero, kSymmetric } mode = Mode::kZero;
  enum class Offsets { kInclusive, kSinga } offsets = Offsets::kInclusive;
  bool operator==(const PadCrop&) const = default;
};

// Mirrors left and right with probability 1/2.
struct Flip {
  bool operator==(const Flip&) const = default;
};

using Augmentation = std::variant<PadCrop, Flip>;

// Value. From stored pixels to what the model reads: x = (pixel/255 - mean[c]) / std[c]. Evaluation normalises
// alone.
struct Preprocessing {
  std::vector<Augmentation> augmentations;  // in order; training only
  std::vector<float> mean;                  // one a channel; empty = 0
  std::vector<float> std;                   // one a channel; empty = 1
  bool operator==(const Preprocessing&) const = default;
};

// What a sample's random numbers are keyed by (DESIGN 4.2): equal on whatever rank reads it.
struct SampleKey {
  std::uint64_t seed = 0;
  std::int64_t sample_id = 0;
  std::int64_t epoch = 0;
};

// Writes one sample, (C, H, W), into `out`.
void preprocess(const Preprocessing& steps, bool training, const SampleKey& key, tensor::Shape sample,
                std::span<const std::uint8_t> pixels, std::span<float> out);

}  // namespace coxswain::data
