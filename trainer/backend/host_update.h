#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "trainer/backend/parameters.h"
#include "trainer/optim/update_rule.h"

namespace coxswain::backend {

// Without infinities and NaN.
bool all_finite(std::span<const float> values);

// Backend::update in its parts, and what else a host does to parameters in its memory.

// Judges the step and leaves the verdict in the control segment; the count with this update, or
// nothing when the step is skipped.
std::optional<std::int64_t> count_update(const Parameters& parameters);

// By what all gradients are multiplied, where the rule clips them by their norm: the squares of
// each trainable segment are summed in the order of the buffer.
float gradient_factor(const optim::UpdateRule& rule, const Parameters& parameters);

// Runs the optimizer over segments [first, last).
void update_segments(const optim::UpdateRule& rule, const optim::UpdateStep& step,
                     const Parameters& parameters, int first, int last);

}  // namespace coxswain::backend
