#pragma once

#include <array>

#include "trainer/augment/augmentation.h"

namespace coxswain::data {

// The steps of data.augment, in order. In evaluation each does what it does without chance.
using Preprocessing = std::vector<augment::Augmentation>;

// Resource. From stored images to those that the model reads: for many samples, on one thread.
class Preprocessor {
 public:
  // Throws Error (65) when the steps do not suit samples of this shape.
  Preprocessor(const Preprocessing& steps, const tensor::Shape& sample, bool training);

  // What is made of every sample: of this shape, (1, C, H, W).
  const tensor::Shape& result() const { return result_; }
  // Writes one sample, (H, W, C), into `out`. Throws BadSample when an image of another size than
  // the first does not suit the steps, or becomes another shape than the result.
  void run(const augment::SampleKey& key, augment::Image image, std::span<std::uint8_t> out);
  // Whether training mixes each image with another one.
  bool mixes() const { return !mixers_.empty(); }
  // Mixes what run() made of one sample into what it made of another, `image`: which has the key.
  // Returns the share that remains of it; the rest of its label is the partner's.
  float mix(const augment::SampleKey& key, std::span<const std::uint8_t> partner,
            std::span<std::uint8_t> image) const;
  // What makes its bytes what the model reads; see tensor::Pixels.
  std::span<const float> table() const { return table_; }

 private:
  struct Step {
    augment::Augmentation augmentation;
    std::uint32_t stream;
  };

  tensor::Shape sample_;
  tensor::Shape result_;
  bool training_;
  std::vector<Step> steps_;   // from image to image
  std::vector<Step> mixers_;  // in training: each image is given to one of them
  std::vector<float> table_;
  std::array<augment::Scratch, 2> scratch_;  // a step reads one and writes the other
};

}  // namespace coxswain::data
