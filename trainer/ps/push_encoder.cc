#include "trainer/ps/push_encoder.h"

#include <utility>

namespace coxswain::ps {

PushEncoder::PushEncoder(const Plan& plan, const compress::Codec& codec)
    : plan_(plan), form_(plan.layout, codec) {
  if (!form_.encodes()) return;
  set_form(form_);
  residuals_ = tensor::AlignedBuffer<float>(plan.layout.size());
  left_ = tensor::AlignedBuffer<float>(plan.layout.size());
}

void PushEncoder::set_form(const PushForm& form) {
  form_ = form;
  starts_.clear();
  total_bytes_ = 0;
  for (const Piece& block : plan_.map.cut(0, plan_.layout.size())) {
    starts_.push_back(static_cast<std::size_t>(total_bytes_));
    total_bytes_ += form_.bytes_of(block);
  }
  bytes_.emplace_back(total_bytes_);
}

std::span<std::byte> PushEncoder::bytes_of(const Piece& block) {
  const auto start = starts_[static_cast<std::size_t>(block.offset / plan_.map.block())];
  return bytes_.back().span().subspan(start, static_cast<std::size_t>(form_.bytes_of(block)));
}

std::int64_t PushEncoder::plain_bytes() const {
  return plan_.layout.size() * static_cast<std::int64_t>(sizeof(float));
}

std::span<const std::byte> PushEncoder::encode(std::int64_t offset,
                                               std::span<const float> gradients) {
  if (!encodes()) return std::as_bytes(gradients);
  const Piece block{.offset = offset, .length = std::ssize(gradients)};
  const auto at = static_cast<std::size_t>(offset);
  const std::span<std::byte> bytes = bytes_of(block);
  form_.encode(block, gradients, residuals_.span().subspan(at, gradients.size()), bytes,
               left_.span().subspan(at, gradients.size()));
  return bytes;
}

void PushEncoder::decode(std::int64_t offset, std::int64_t length) {
  if (!encodes()) return;
  if (decoded_.size() == 0) decoded_ = tensor::AlignedBuffer<float>(plan_.map.block());
  const Piece block{.offset = offset, .length = length};
  form_.decode(block, bytes_of(block), decoded_.span().first(static_cast<std::size_t>(length)));
}

void PushEncoder::finish_step(bool updated) {
  if (!updated) return;
  std::swap(residuals_, left_);
  if (form_.encodes()) return;
  residuals_ = {};  // all of it was pushed
  left_ = {};
}

void PushEncoder::push_exactly() {
  if (encodes()) set_form(PushForm(plan_.layout, {}));
}

}  // namespace coxswain::ps
