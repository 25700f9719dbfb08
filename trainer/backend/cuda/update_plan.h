#pragma once

#include <vector>

#include "trainer/backend/cuda/kernels/kernels.h"
#include "trainer/tensor/parameter_layout.h"

namespace coxswain::backend::cuda {

// Value. What an optimizer does where in the flat buffer.
struct UpdatePlan {
  std::vector<Change> changes;  // of each granule
};

UpdatePlan plan_update(const tensor::ParameterLayout& layout, DecayScope scope);

}  // namespace coxswain::backend::cuda
