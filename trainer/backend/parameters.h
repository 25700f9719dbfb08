#pragma once

#include <vector>

#include "trainer/tensor/memory.h"
#include "trainer/tensor/parameter_layout.h"

namespace coxswain::backend {

// Resource. All weights, gradients and optimizer slots of a model in a device's memory, each one
// flat array of layout().size() floats in one order. Starts as zeros. See Backend::make_parameters.
//
// In the weights, statistic segments hold the running values; in the gradients, what this step
// contributes to them. For the control segment see control.h.
class Parameters {
 public:
  Parameters(tensor::Memory& memory, tensor::ParameterLayout layout, int num_slots)
      : memory_(memory), layout_(std::move(layout)) {
    const std::int64_t size = layout_.size();
    weights_ = memory.allocate(size);
    gradients_ = memory.allocate(size);
    for (int i = 0; i < num_slots; ++i) slots_.push_back(memory.allocate(size));
  }
  Parameters(const Parameters&) = delete;
  Parameters& operator=(const Parameters&) = delete;

  tensor::Memory& memory() const { return memory_; }
  const tensor::ParameterLayout& layout() const { return layout_; }
  int num_slots() const { return static_cast<int>(slots_.size()); }

  tensor::Slice weights() const { return weights_.slice(); }
  tensor::Slice gradients() const { return gradients_.slice(); }
  tensor::Slice slot(int index) const { return slots_[static_cast<std::size_t>(index)].slice(); }

  tensor::Slice weights(const tensor::Segment& s) const { return of(weights(), s); }
  tensor::Slice gradients(const tensor::Segment& s) const { return of(gradients(), s); }
  tensor::Slice slot(int index, const tensor::Segment& s) const { return of(slot(index), s); }

 private:
  static tensor::Slice of(const tensor::Slice& all, const tensor::Segment& s) {
    return all.range(s.offset, s.stored);
  }

  tensor::Memory& memory_;
  tensor::ParameterLayout layout_;
  tensor::Buffer weights_;
  tensor::Buffer gradients_;
  std::vector<tensor::Buffer> slots_;
};

}  // namespace coxswain::backend
