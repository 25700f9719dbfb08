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

// constexpr, as all that a device's kernels call too.
constexpr std::array<std::uint32_t, 4> philox(std::uint64_t seed, const PhiloxCounter& counter) {
  std::uint32_t k0 = static_cast<std::uint32_t>(seed);
  std::uint32_t k1 = static_cast<std::uint32_t>(seed >> 32);
  std::uint32_t c0 = counter.sample;
  std::uint32_t c1 = counter.epoch;
  std::uint32_t c2 = counter.stream;
  std::uint32_t c3 = counter.index;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * c0;
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * c2;
    c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<std::uint32_t>(p1);
    c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<std::uint32_t>(p0);
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return {c0, c1, c2, c3};
}

// FNV-1a of a name: the stream of a PhiloxCounter.
std::uint32_t stream_of(std::string_view name);

// Uniform in [0, 1): the upper 24 bits.
constexpr float to_uniform(std::uint32_t bits) {
  return static_cast<float>(bits >> 8) * 0x1.0p-24F;
}

// Two independent standard normal values (Box-Muller).
std::array<float, 2> to_normal(std::uint32_t a, std::uint32_t b);

}  // namespace coxswain::tensor
