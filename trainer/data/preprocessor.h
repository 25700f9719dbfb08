#pragma once

#include <array>

#include "trainer/augment/augmentation.h"

namespace coxswain::data {

// The steps of data.augment, in order. Evaluation normalises alone.
using Preprocessing = std::vector<augment::Augmentation>;

// Resource. From stored pixels to what the model reads: for many samples of one shape, on one
// thread.
class Preprocessor {
 public:
  // Throws Error (65) when the steps do not suit samples of this shape.
  Preprocessor(const Preprocessing& steps, const tensor::Shape& sample, bool training);

  // Writes one sample, (C, H, W), into `out`.
  void run(const augment::SampleKey& key, augment::Image image, std::span<float> out);

 private:
  struct Step {
    augment::Augmentation augmentation;
    std::uint32_t stream;
  };

  std::vector<Step> steps_;  // from image to image
  augment::PixelTable table_;
  std::array<augment::Scratch, 2> scratch_;  // a step reads one and writes the other
};

}  // namespace coxswain::data
