#include "trainer/compress/block_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "trainer/contract/error.h"

namespace coxswain::compress {

BlockEncoder::BlockEncoder(const tensor::ParameterLayout& layout, std::int64_t block,
                           const Codec& codec)
    : layout_(layout),
      size_(layout.size()),
      block_(block),
      num_blocks_((size_ + block - 1) / block),
      sending_(layout, codec),
      resting_(layout, codec, BlockForm::Turn::kRests) {
  if (codec.parts > num_blocks_) {
    throw Error(ExitCode::kBadInput,
                fmt::format("[compress] communication.partial: {} parts, but this model is sent in "
                            "blocks of {} bytes, of which it has {}: write at most that",
                            codec.parts, block * std::int64_t{sizeof(float)}, num_blocks_));
  }
  if (!codec.encodes()) return;
  set_codec(codec);
  residuals_ = tensor::AlignedBuffer<float>(size_);
  left_ = tensor::AlignedBuffer<float>(size_);
}

void BlockEncoder::set_codec(const Codec& codec) {
  codec_ = codec;
  sending_ = BlockForm(layout_, codec);
  resting_ = BlockForm(layout_, codec, BlockForm::Turn::kRests);
  turn_ = 0;
  starts_.clear();
  std::int64_t memory = 0;
  std::int64_t of_all_turns = 0;
  for (std::int64_t offset = 0; offset < size_; offset += block_) {
    const std::int64_t length = std::min(block_, size_ - offset);
    const std::int64_t sends = sending_.bytes_of(offset, length);
    const std::int64_t rests = resting_.bytes_of(offset, length);
    starts_.push_back(static_cast<std::size_t>(memory));
    memory += std::max(sends, rests);
    of_all_turns += sends + rests * (codec.parts - 1);
  }
  bytes_a_step_ = of_all_turns / codec.parts;
  bytes_.emplace_back(memory);
}

// A part is a run of blocks: those that all ranks own in turn are in each.
const BlockForm& BlockEncoder::form_of(std::int64_t offset) const {
  const std::int64_t part = offset / block_ * codec_.parts / num_blocks_;
  return part == turn_ ? sending_ : resting_;
}

std::span<std::byte> BlockEncoder::bytes_of(std::int64_t offset, std::int64_t length) {
  const auto start = starts_[static_cast<std::size_t>(offset / block_)];
  const auto bytes = static_cast<std::size_t>(form_of(offset).bytes_of(offset, length));
  return bytes_.back().span().subspan(start, bytes);
}

std::span<const std::byte> BlockEncoder::encode(std::int64_t offset,
                                                std::span<const float> gradients) {
  if (!encodes()) return std::as_bytes(gradients);
  const auto at = static_cast<std::size_t>(offset);
  const std::span<std::byte> bytes = bytes_of(offset, std::ssize(gradients));
  form_of(offset).encode(offset, gradients, residuals_.span().subspan(at, gradients.size()), bytes,
                         left_.span().subspan(at, gradients.size()));
  return bytes;
}

void BlockEncoder::decode(std::int64_t offset, std::int64_t length) {
  if (!encodes()) return;
  if (decoded_.size() == 0) decoded_ = tensor::AlignedBuffer<float>(block_);
  decode(offset, bytes_of(offset, length), decoded_.span().first(static_cast<std::size_t>(length)));
}

void BlockEncoder::finish_step(bool updated) {
  if (!updated) return;
  std::swap(residuals_, left_);
  if (codec_.encodes()) return;
  residuals_ = {};  // all of it was sent
  left_ = {};
}

void BlockEncoder::push_exactly() {
  if (encodes()) set_codec({});
}

}  // namespace coxswain::compress
