#pragma once

#include <cstdint>
#include <vector>

namespace coxswain::graph {

// Value. A buffer that must exist from step `first` to step `last`, both included.
struct Lifetime {
  std::int64_t bytes = 0;
  int first = 0;
  int last = 0;
};

struct MemoryPlan {
  std::vector<std::int64_t> offsets;  // one a lifetime, multiples of 64
  std::int64_t bytes = 0;             // of the arena
};

// Places buffers in one arena so that no two that live at the same time overlap: largest first,
// lowest hole that fits.
MemoryPlan plan_memory(const std::vector<Lifetime>& lifetimes);

}  // namespace coxswain::graph
