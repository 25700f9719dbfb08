#pragma once

#include <optional>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/train/evaluation.h"

namespace coxswain::train {

// Throw Error (76). All ranks of a synchronous training throw: they judge the same sums.

// For more steps in a row that were skipped, since loss or gradients were not finite.
void require_few_skipped(std::int64_t in_a_row, std::int64_t most, std::int64_t step);

// A run that ends in such steps has not learned what it was to learn, however good its weights were
// before.
void require_finite_end(const checkpoint::State& state, const std::optional<Scores>& scores);

}  // namespace coxswain::train
