#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "trainer/backend/parameters.h"
#include "trainer/optim/update_rule.h"

namespace coxswain::backend {

// Without infinities and NaN.
bool all_finite(std::span<const float> values);

// The two halves of Backend::update on a host, for parameters in its memory.

// Judges the step and leaves the verdict in the control segment; the count with this update, or
// nothing when the step is skipped.
std::optional<std::int64_t> count_update(const Parameters& parameters);

// Runs the optimizer over segments [first, last).
void update_segments(const optim::UpdateRule& rule, const optim::UpdateStep& step,
                     const Parameters& parameters, int first, int last);

}  // namespace coxswain::backend
