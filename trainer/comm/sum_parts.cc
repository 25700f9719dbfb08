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

// Of elements [begin, begin + length).
void add_chunk(std::span<const ReductionPlan::Add> adds, std::span<float* const> parts,
               std::int64_t begin, std::int64_t length) {
  for (const ReductionPlan::Add& one : adds) {
    float* into = parts[static_cast<std::size_t>(one.into)] + begin;
    add(into, parts[static_cast<std::size_t>(one.from)] + begin, length, into);
  }
}

}  // namespace

void add_parts(std::span<const ReductionPlan::Add> adds, std::span<float* const> parts,
               std::int64_t count) {
  for (std::int64_t begin = 0; begin < count; begin += kChunk)
    add_chunk(adds, parts, begin, std::min(kChunk, count - begin));
}

void sum_parts(std::span<const ReductionPlan::Add> adds, std::span<float* const> parts,
               std::int64_t count, float* out) {
  if (adds.empty()) {
    if (parts[0] != out) std::copy_n(parts[0], count, out);
    return;
  }
  const auto [into, from] = adds.back();
  for (std::int64_t begin = 0; begin < count; begin += kChunk) {
    const std::int64_t length = std::min(kChunk, count - begin);
    add_chunk(adds.first(adds.size() - 1), parts, begin, length);
    add(parts[static_cast<std::size_t>(into)] + begin,
        parts[static_cast<std::size_t>(from)] + begin, length, out + begin);
  }
}

}  // namespace coxswain::comm
