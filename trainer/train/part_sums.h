#pragma once

#include <cstdint>
#include <vector>

#include "trainer/tensor/memory.h"

namespace coxswain::train {

// Resource. The parts that one rank brings to a reduction: the shards of a part are added by
// halving, as the reduction's tree says, with at most log2 V buffers at a time. Buffers are kept
// for the next step.
class PartSums {
 public:
  PartSums(tensor::Memory& memory, std::int64_t floats) : memory_(memory), floats_(floats) {}

  void clear();  // the parts of the last step are given up
  void add_shard(const tensor::Slice& values);
  void finish_part();  // a complete subtree of shards has been added

  std::size_t size() const { return parts_.size(); }
  tensor::Slice part(std::size_t index) const { return parts_[index].slice(); }

 private:
  // A complete subtree of shards that is summed already.
  struct Partial {
    int level = 0;
    tensor::Buffer sum;
  };
  tensor::Buffer take_buffer();

  tensor::Memory& memory_;
  std::int64_t floats_;
  std::vector<Partial> partials_;
  std::vector<tensor::Buffer> parts_;
  std::vector<tensor::Buffer> spare_;
};

}  // namespace coxswain::train
