#pragma once

#include <cstdint>
#include <span>

#include "trainer/comm/reduction.h"

namespace coxswain::comm {

// out[i] = the sum of parts[p][i] over all parts, in the plan's order, for i in [0, count). The
// parts are scratch afterwards. `out` may be one of them.
void sum_parts(const ReductionPlan& plan, std::span<float* const> parts, std::int64_t count,
               float* out);

}  // namespace coxswain::comm
