#include "trainer/tensor/parameter_buffer.h"

#include <utility>

namespace coxswain::tensor {

ParameterBuffer::ParameterBuffer(ParameterLayout layout, int num_slots)
    : layout_(std::move(layout)), weights_(layout_.size()), gradients_(layout_.size()) {
  for (int i = 0; i < num_slots; ++i) slots_.emplace_back(layout_.size());
}

}  // namespace coxswain::tensor
