#pragma once

#include <span>

#include "trainer/backend/executable.h"

namespace coxswain::backend {

// A few thousand numbers a step: these plain loops serve every backend on the host.

// logits (N, classes); rows from batch.valid on are not scored. The target of a mixed row is both
// labels, by their shares; it is right when the label of the greater one comes first, as
// torchvision's training script counts.
LossSums softmax_cross_entropy(const tensor::Shape& shape, float label_smoothing,
                               std::span<const float> logits, const Batch& batch);
// d_logits = (softmax - target) / global_count, zero for rows that are not scored.
void softmax_cross_entropy_gradient(const tensor::Shape& shape, float label_smoothing,
                                    std::span<const float> logits, const Batch& batch,
                                    std::span<float> d_logits);

}  // namespace coxswain::backend
