#pragma once

#include <cstdint>
#include <vector>

#include "trainer/tensor/parameter_layout.h"

namespace coxswain::train {

// Value. A range of the flat buffer, in floats.
struct Range {
  std::int64_t offset = 0;
  std::int64_t length = 0;
  std::int64_t end() const { return offset + length; }
  bool operator==(const Range&) const = default;
};

// Cuts the buffer, in order, into buckets, each reduced as one message, of at least `bytes` (the
// last one takes what is left, the control segment included). Segments are never split: a bucket
// can start as soon as its last gradient is final.
std::vector<Range> make_buckets(const tensor::ParameterLayout& layout, std::int64_t bytes);

// The same ranges, but that each ends where a block does, or at the end: a bucket leaves a little
// later. None is empty.
std::vector<Range> to_whole_blocks(const std::vector<Range>& ranges, std::int64_t block);

// The size that balances one more message against waiting for more gradients: sqrt(cost * M * B),
// where `seconds_per_message` is the fixed cost of an all-reduce, M the model's bytes and B =
// 1/seconds_per_byte.
std::int64_t best_bucket_bytes(std::int64_t model_bytes, double seconds_per_message,
                               double seconds_per_byte);

}  // namespace coxswain::train
