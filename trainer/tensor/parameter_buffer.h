#pragma once

#include <span>
#include <vector>

#include "trainer/tensor/aligned_buffer.h"
#include "trainer/tensor/parameter_layout.h"

namespace coxswain::tensor {

// Resource. All weights, gradients and optimizer slots of a model, each one flat array of
// layout.size() floats in one order. Starts as zeros.
//
// In the weights, statistic segments hold the running values; in the gradients, what this step
// contributes to them. The control segment has a meaning in the gradients only.
class ParameterBuffer {
 public:
  ParameterBuffer(ParameterLayout layout, int num_slots);
  ParameterBuffer(const ParameterBuffer&) = delete;
  ParameterBuffer& operator=(const ParameterBuffer&) = delete;

  const ParameterLayout& layout() const { return layout_; }
  std::span<float> weights() { return weights_.span(); }
  std::span<float> gradients() { return gradients_.span(); }
  int num_slots() const { return static_cast<int>(slots_.size()); }
  std::span<float> slot(int index) { return slots_[static_cast<std::size_t>(index)].span(); }

  std::span<float> weights(const Segment& s) { return slice(weights(), s); }
  std::span<float> gradients(const Segment& s) { return slice(gradients(), s); }
  std::span<float> slot(int index, const Segment& s) { return slice(slot(index), s); }

 private:
  static std::span<float> slice(std::span<float> all, const Segment& s) {
    return all.subspan(static_cast<std::size_t>(s.offset), static_cast<std::size_t>(s.stored));
  }

  ParameterLayout layout_;
  AlignedBuffer<float> weights_;
  AlignedBuffer<float> gradients_;
  std::vector<AlignedBuffer<float>> slots_;
};

}  // namespace coxswain::tensor
