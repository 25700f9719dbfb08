#include "trainer/comm/sum_parts.h"

#include <algorithm>

namespace coxswain::comm {

namespace {

// All parts of a chunk stay in the cache while they are added.
constexpr std::int64_t kChunk = 2048;

// `out` is `a`, `b` or disjoint from both, so no iteration depends on another.
void add(const float* a, const float* b, std::int64_t count, float* out) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
}

}  // namespace

void sum_parts(const ReductionPlan& plan, std::span<float* const> parts, std::int64_t count,
               float* out) {
  if (plan.adds.empty()) {
    if (parts[0] != out) std::copy_n(parts[0], count, out);
    return;
  }
  for (std::int64_t begin = 0; begin < count; begin += kChunk) {
    const std::int64_t length = std::min(kChunk, count - begin);
    const auto at = [&](int part) { return parts[static_cast<std::size_t>(part)] + begin; };
    for (std::size_t i = 0; i + 1 < plan.adds.size(); ++i) {
      add(at(plan.adds[i].into), at(plan.adds[i].from), length, at(plan.adds[i].into));
    }
    add(at(plan.adds.back().into), at(plan.adds.back().from), length, out + begin);
  }
}

}  // namespace coxswain::comm
