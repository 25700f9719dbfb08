#pragma once

#include <array>

#include "trainer/augment/augmentation.h"

namespace coxswain::data {

// The steps of data.augment, in order. Evaluation normalises alone.
using Preprocessing = std::vector<augment::Augmentation>;

// Resource. From stored images to those that the model reads: for many samples of one shape, on
// one thread.
class Preprocessor {
 public:
  // Throws Error (65) when the steps do not suit samples of this shape.
  Preprocessor(const Preprocessing& steps, const tensor::Shape& sample, bool training);

  // Writes one sample, (H, W, C), into `out`.
  void run(const augment::SampleKey& key, augment::Image image, std::span<std::uint8_t> out);
  // What makes its bytes what the model reads; see tensor::Pixels.
  std::span<const float> table() const { return table_; }

 private:
  struct Step {
    augment::Augmentation augmentation;
    std::uint32_t stream;
  };

  std::vector<Step> steps_;  // from image to image
  std::vector<float> table_;
  std::array<augment::Scratch, 2> scratch_;  // a step reads one and writes the other
};

}  // namespace coxswain::data
