#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trainer/ps/push_form.h"
#include "trainer/tensor/aligned_buffer.h"

namespace coxswain::ps {

// Resource. What one worker's pushes of a step are made of, and what they leave out until later
// ones. Without a codec a push is the gradients' own memory.
class PushEncoder {
 public:
  PushEncoder(const Plan& plan, const compress::Codec& codec);

  // Once a step for each block. They stay as they are until the next step.
  std::span<const std::byte> encode(std::int64_t offset, std::span<const float> gradients);
  // All blocks were encoded. A step that did not update leaves the residuals of the one before.
  void finish_step(bool updated);

  // Between steps; as the flat buffer. Empty without a codec.
  std::span<float> residuals() { return residuals_.span(); }

 private:
  const Plan plan_;
  const PushForm form_;
  std::vector<std::size_t> starts_;  // of each block in bytes_
  tensor::AlignedBuffer<std::byte> bytes_;
  tensor::AlignedBuffer<float> residuals_;
  tensor::AlignedBuffer<float> left_;  // of the running step
};

}  // namespace coxswain::ps
