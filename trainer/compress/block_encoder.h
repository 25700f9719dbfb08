#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "trainer/compress/block_form.h"
#include "trainer/tensor/aligned_buffer.h"

namespace coxswain::compress {

// Resource. What one rank sends of each step's gradients, block by block, and what it leaves out
// until later steps. Without a codec what is sent is the gradients' own memory.
class BlockEncoder {
 public:
  // Blocks of `block` floats; the last one is what is left. Throws Error(65) when they are fewer
  // than the codec's parts.
  BlockEncoder(const tensor::ParameterLayout& layout, std::int64_t block, const Codec& codec);

  // Before a step's first block: which part of them has its turn follows from the step.
  void begin_step(std::int64_t step) { turn_ = step % codec_.parts; }

  // Once a step for each block. They stay as they are until the next step.
  std::span<const std::byte> encode(std::int64_t offset, std::span<const float> gradients);
  // The memory of a block that encode() writes to, if there is a codec: free until then, and once
  // what it wrote is sent.
  std::span<std::byte> bytes_of(std::int64_t offset, std::int64_t length);
  void decode(std::int64_t offset, std::span<const std::byte> bytes,
              std::span<float> gradients) const {
    form_of(offset).decode(offset, bytes, gradients);
  }
  // As its reader does, to see what it costs.
  void decode(std::int64_t offset, std::int64_t length);
  // All blocks were encoded. A step that did not update leaves the residuals of the one before.
  void finish_step(bool updated);

  // Between steps. The next one that updates takes along all that was left out, exactly; those
  // after it are without a codec.
  void push_exactly();
  // There is a codec, or something that was left out is still to be sent.
  bool encodes() const { return residuals_.size() > 0; }
  // Between steps; as the flat buffer. Empty without a codec.
  std::span<float> residuals() { return residuals_.span(); }
  std::int64_t bytes() const { return encodes() ? bytes_a_step_ : 0; }  // in the mean
  std::int64_t plain_bytes() const { return size_ * static_cast<std::int64_t>(sizeof(float)); }

 private:
  void set_codec(const Codec& codec);
  const BlockForm& form_of(std::int64_t offset) const;

  const tensor::ParameterLayout layout_;
  const std::int64_t size_;
  const std::int64_t block_;
  const std::int64_t num_blocks_;
  Codec codec_;
  BlockForm sending_;
  BlockForm resting_;
  std::int64_t turn_ = 0;            // of the codec's parts
  std::vector<std::size_t> starts_;  // of each block in the bytes
  std::int64_t bytes_a_step_ = 0;
  // The newest is written. An older one may still wait to be sent: again, and to be ignored.
  std::deque<tensor::AlignedBuffer<std::byte>> bytes_;
  tensor::AlignedBuffer<float> residuals_;
  tensor::AlignedBuffer<float> left_;  // of the running step
  tensor::AlignedBuffer<float> decoded_;
};

}  // namespace coxswain::compress
