#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/tensor/aligned_buffer.h"

namespace coxswain::train {

// into[i] += from[i]. Elementwise: any cut gives the same bits.
void add(std::span<float> into, std::span<const float> from);

// Resource. The parts that one rank brings to a reduction: the shards of a part are added by
// halving, as the reduction's tree says, with at most log2 V buffers at a time. Buffers are kept
// for the next step.
class PartSums {
 public:
  explicit PartSums(std::int64_t floats) : floats_(floats) {}

  void clear();  // the parts of the last step are given up
  void add_shard(std::span<const float> values);
  void finish_part();  // a complete subtree of shards has been added

  std::size_t size() const { return parts_.size(); }
  std::span<float> part(std::size_t index) const { return parts_[index].span(); }

 private:
  // A complete subtree of shards that is summed already.
  struct Partial {
    int level = 0;
    tensor::AlignedBuffer<float> sum;
  };
  tensor::AlignedBuffer<float> take_buffer();

  std::int64_t floats_;
  std::vector<Partial> partials_;
  std::vector<tensor::AlignedBuffer<float>> parts_;
  std::vector<tensor::AlignedBuffer<float>> spare_;
};

}  // namespace coxswain::train
