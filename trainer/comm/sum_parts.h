#pragma once

#include <cstdint>
#include <span>

#include "trainer/comm/reduction.h"

namespace coxswain::comm {

// parts[add.into][i] += parts[add.from][i] for each of the adds, in order, and i in [0, count).
void add_parts(std::span<const ReductionPlan::Add> adds, std::span<float* const> parts,
               std::int64_t count);

// out[i] = the sum of parts[p][i] over all parts, added in this order, for i in [0, count). The
// parts are scratch afterwards. `out` may be one of them.
void sum_parts(std::span<const ReductionPlan::Add> adds, std::span<float* const> parts,
               std::int64_t count, float* out);

}  // namespace coxswain::comm
