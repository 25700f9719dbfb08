#include "trainer/compress/block_encoder.h"

#include <algorithm>
#include <utility>

namespace coxswain::compress {

BlockEncoder::BlockEncoder(const tensor::ParameterLayout& layout, std::int64_t block,
                           const Codec& codec)
    : layout_(layout), size_(layout.size()), block_(block), form_(layout, codec) {
  if (!form_.encodes()) return;
  set_form(form_);
  residuals_ = tensor::AlignedBuffer<float>(size_);
  left_ = tensor::AlignedBuffer<float>(size_);
}

void BlockEncoder::set_form(const BlockForm& form) {
  form_ = form;
  starts_.clear();
  total_bytes_ = 0;
  for (std::int64_t offset = 0; offset < size_; offset += block_) {
    starts_.push_back(static_cast<std::size_t>(total_bytes_));
    total_bytes_ += form_.bytes_of(offset, std::min(block_, size_ - offset));
  }
  bytes_.emplace_back(total_bytes_);
}

std::span<std::byte> BlockEncoder::bytes_of(std::int64_t offset, std::int64_t length) {
  const auto start = starts_[static_cast<std::size_t>(offset / block_)];
  const auto bytes = static_cast<std::size_t>(form_.bytes_of(offset, length));
  return bytes_.back().span().subspan(start, bytes);
}

std::span<const std::byte> BlockEncoder::encode(std::int64_t offset,
                                                std::span<const float> gradients) {
  if (!encodes()) return std::as_bytes(gradients);
  const auto at = static_cast<std::size_t>(offset);
  const std::span<std::byte> bytes = bytes_of(offset, std::ssize(gradients));
  form_.encode(offset, gradients, residuals_.span().subspan(at, gradients.size()), bytes,
               left_.span().subspan(at, gradients.size()));
  return bytes;
}

void BlockEncoder::decode(std::int64_t offset, std::int64_t length) {
  if (!encodes()) return;
  if (decoded_.size() == 0) decoded_ = tensor::AlignedBuffer<float>(block_);
  form_.decode(offset, bytes_of(offset, length),
               decoded_.span().first(static_cast<std::size_t>(length)));
}

void BlockEncoder::finish_step(bool updated) {
  if (!updated) return;
  std::swap(residuals_, left_);
  if (form_.encodes()) return;
  residuals_ = {};  // all of it was sent
  left_ = {};
}

void BlockEncoder::push_exactly() {
  if (encodes()) set_form(BlockForm(layout_, {}));
}

}  // namespace coxswain::compress
