#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace coxswain::tensor {

// Philox4x32-10: counter-based random numbers (Salmon et al., SC'11, "Parallel Random Numbers: As
// Easy as 1, 2, 3", section 3.3). The same (key, counter) gives the same four words on every
// machine and at every world size, which is what makes dropout, augmentation and initial weights
// independent of ranks.
struct PhiloxCounter {
  std::uint32_t sample = 0;  // sample id; 0 for initial weights
  std::uint32_t epoch = 0;
  std::uint32_t stream = 0;  // hash of the layer's, augmentation's or tensor's name
  std::uint32_t index = 0;   // element index / 4
};

std::array<std::uint32_t, 4> philox(std::uint64_t seed, const PhiloxCounter& counter);

// FNV-1a of a name: the stream of a PhiloxCounter.
std::uint32_t stream_of(std::string_view name);

// Uniform in [0, 1): the upper 24 bits.
inline float to_uniform(std::uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1.0p-24F; }

// Two independent standard normal values (Box-Muller).
std::array<float, 2> to_normal(std::uint32_t a, std::uint32_t b);

}  // namespace coxswain::tensor
