#pragma once

#include <vector>

#include "trainer/backend/cuda/kernels/kernels.h"
#include "trainer/tensor/parameter_layout.h"

namespace coxswain::backend::cuda {

// Value. What an optimizer does where in the flat buffer; of tensors whose step depends on all of
// them, which they are (FlatBuffer, RatedTensors).
struct UpdatePlan {
  std::vector<Change> changes;          // of each granule
  std::vector<std::int32_t> tensor_of;  // of each granule; empty where there are no such tensors
  std::vector<RatedTensor> tensors;
  std::vector<Piece> pieces;
};

UpdatePlan plan_update(const tensor::ParameterLayout& layout, OptimizerKind kind, DecayScope scope);

}  // namespace coxswain::backend::cuda
