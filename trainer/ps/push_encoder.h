#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
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
  // As a server does, to see what it costs.
  void decode(std::int64_t offset, std::int64_t length);
  // All blocks were encoded. A step that did not update leaves the residuals of the one before.
  void finish_step(bool updated);

  // Between steps. The next one that updates takes along all that was left out, exactly; those
  // after it are without a codec.
  void push_exactly();
  // Between steps; as the flat buffer. Empty without a codec.
  std::span<float> residuals() { return residuals_.span(); }
  std::int64_t bytes() const { return encodes() ? total_bytes_ : 0; }  // of a step
  std::int64_t plain_bytes() const;

 private:
  bool encodes() const { return residuals_.size() > 0; }
  void set_form(const PushForm& form);
  std::span<std::byte> bytes_of(const Piece& block);

  const Plan plan_;
  PushForm form_;
  std::vector<std::size_t> starts_;  // of each block in the bytes
  std::int64_t total_bytes_ = 0;
  // The newest is written. An older one may still wait to be sent: again, and to be ignored.
  std::deque<tensor::AlignedBuffer<std::byte>> bytes_;
  tensor::AlignedBuffer<float> residuals_;
  tensor::AlignedBuffer<float> left_;  // of the running step
  tensor::AlignedBuffer<float> decoded_;
};

}  // namespace coxswain::ps
