#include "trainer/train/part_sums.h"

#include <utility>

namespace coxswain::train {

void PartSums::clear() {
  for (auto& part : parts_) spare_.push_back(std::move(part));
  parts_.clear();
}

// As a binary counter carries: after shard i, as many additions as i+1 has trailing zeros.
void PartSums::add_shard(const tensor::Slice& values) {
  Partial carry{0, take_buffer()};
  memory_.copy(values, carry.sum.slice());
  while (!partials_.empty() && partials_.back().level == carry.level) {
    Partial left = std::move(partials_.back());
    partials_.pop_back();
    memory_.add(left.sum.slice(), carry.sum.slice());
    spare_.push_back(std::move(carry.sum));
    carry = {left.level + 1, std::move(left.sum)};
  }
  partials_.push_back(std::move(carry));
}

void PartSums::finish_part() {
  parts_.push_back(std::move(partials_.back().sum));
  partials_.clear();
}

tensor::Buffer PartSums::take_buffer() {
  if (spare_.empty()) return memory_.allocate(floats_);
  auto buffer = std::move(spare_.back());
  spare_.pop_back();
  return buffer;
}

}  // namespace coxswain::train
