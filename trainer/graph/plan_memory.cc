#include "trainer/graph/plan_memory.h"

#include <algorithm>
#include <numeric>

namespace coxswain::graph {

namespace {

constexpr std::int64_t kAlignment = 64;  // bytes: a cache line and an AVX-512 register

struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

bool overlap(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

// The lowest offset with `bytes` free between the taken ranges.
std::int64_t lowest_hole(std::vector<Range> taken, std::int64_t bytes) {
  std::sort(taken.begin(), taken.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::int64_t offset = 0;
  for (const Range& range : taken) {
    if (offset + bytes <= range.begin) break;
    offset = std::max(offset, range.end);
  }
  return offset;
}

}  // namespace

MemoryPlan plan_memory(const std::vector<Lifetime>& lifetimes) {
  std::vector<std::size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return lifetimes[a].bytes > lifetimes[b].bytes;
  });
  MemoryPlan plan;
  plan.offsets.resize(lifetimes.size());
  for (std::size_t placed = 0; placed < order.size(); ++placed) {
    const Lifetime& lifetime = lifetimes[order[placed]];
    std::vector<Range> taken;
    for (std::size_t i = 0; i < placed; ++i) {
      const Lifetime& other = lifetimes[order[i]];
      if (!overlap(lifetime, other)) continue;
      const std::int64_t begin = plan.offsets[order[i]];
      taken.push_back({begin, begin + aligned(other.bytes)});
    }
    const std::int64_t bytes = aligned(lifetime.bytes);
    const std::int64_t offset = lowest_hole(std::move(taken), bytes);
    plan.offsets[order[placed]] = offset;
    plan.bytes = std::max(plan.bytes, offset + bytes);
  }
  return plan;
}

}  // namespace coxswain::graph
