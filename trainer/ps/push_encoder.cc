#include "trainer/ps/push_encoder.h"

#include <utility>

namespace coxswain::ps {

PushEncoder::PushEncoder(const Plan& plan, const compress::Codec& codec)
    : plan_(plan), form_(plan.layout, codec) {
  if (!form_.encodes()) return;
  std::int64_t bytes = 0;
  for (const Piece& block : plan.map.cut(0, plan.layout.size())) {
    starts_.push_back(static_cast<std::size_t>(bytes));
    bytes += form_.bytes_of(block);
  }
  bytes_ = tensor::AlignedBuffer<std::byte>(bytes);
  residuals_ = tensor::AlignedBuffer<float>(plan.layout.size());
  left_ = tensor::AlignedBuffer<float>(plan.layout.size());
}

std::span<const std::byte> PushEncoder::encode(std::int64_t offset,
                                               std::span<const float> gradients) {
  if (!form_.encodes()) return std::as_bytes(gradients);
  const Piece block{.offset = offset, .length = std::ssize(gradients)};
  const auto at = static_cast<std::size_t>(offset);
  const auto bytes =
      bytes_.span().subspan(starts_[static_cast<std::size_t>(offset / plan_.map.block())],
                            static_cast<std::size_t>(form_.bytes_of(block)));
  form_.encode(block, gradients, residuals_.span().subspan(at, gradients.size()), bytes,
               left_.span().subspan(at, gradients.size()));
  return bytes;
}

void PushEncoder::finish_step(bool updated) {
  if (updated) std::swap(residuals_, left_);
}

}  // namespace coxswain::ps
