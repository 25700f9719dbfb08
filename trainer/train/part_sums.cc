#include "trainer/train/part_sums.h"

#include <algorithm>

namespace coxswain::train {

void add(std::span<float> into, std::span<const float> from) {
  float* out = into.data();
  const float* in = from.data();
  for (std::size_t i = 0; i < into.size(); ++i) out[i] += in[i];
}

void PartSums::clear() {
  for (auto& part : parts_) spare_.push_back(std::move(part));
  parts_.clear();
}

// As a binary counter carries: after shard i, as many additions as i+1 has trailing zeros.
void PartSums::add_shard(std::span<const float> values) {
  Partial carry{0, take_buffer()};
  std::copy(values.begin(), values.end(), carry.sum.data());
  while (!partials_.empty() && partials_.back().level == carry.level) {
    Partial left = std::move(partials_.back());
    partials_.pop_back();
    add(left.sum.span(), carry.sum.span());
    spare_.push_back(std::move(carry.sum));
    carry = {left.level + 1, std::move(left.sum)};
  }
  partials_.push_back(std::move(carry));
}

void PartSums::finish_part() {
  parts_.push_back(std::move(partials_.back().sum));
  partials_.clear();
}

tensor::AlignedBuffer<float> PartSums::take_buffer() {
  if (spare_.empty()) return tensor::AlignedBuffer<float>(floats_);
  auto buffer = std::move(spare_.back());
  spare_.pop_back();
  return buffer;
}

}  // namespace coxswain::train
