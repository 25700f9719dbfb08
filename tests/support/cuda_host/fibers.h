#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace cuda_host {

// Value. splitmix64.
struct Random {
  std::uint64_t state = 0;
  std::uint64_t next() {
    std::uint64_t z = (state += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  std::size_t below(std::size_t end) { return static_cast<std::size_t>(next() % end); }
};

// Runs `kernel` once for each thread of the block that `here` describes. Whoever stops at a barrier
// lets others run. Ends the process when some wait for those that have ended.
void run_block(const char* name, const std::function<void()>& kernel, Random& random);

// Called by a thread of a block.
void stop_at_barrier();
void stop_at_warp();
std::size_t this_thread();

}  // namespace cuda_host
