#pragma once

#include <bit>
#include <cstdint>

#include "trainer/tensor/data_type.h"

// PURE: halves of a float32 as gradients are sent: without branches, so that loops over them are
// vectorised.
namespace coxswain::compress {

constexpr std::uint32_t kSign = 0x80000000U;
constexpr std::uint32_t kInfinity = 0x7F800000U;

// An integer's comparison, for loops over all of an array.
inline bool is_finite(float value) {
  return (std::bit_cast<std::uint32_t>(value) & kInfinity) != kInfinity;
}

// A finite value stays finite: beyond the largest half, `infinity` less one, it is that one.
inline std::uint16_t kept_finite(float value, std::uint16_t rounded, std::uint16_t infinity) {
  const bool overflows = is_finite(value) && (rounded & 0x7FFFU) == infinity;
  return static_cast<std::uint16_t>(overflows ? rounded - 1 : rounded);
}

inline std::uint16_t to_fp16(float value) {
  return kept_finite(value, tensor::to_float16(value), 0x7C00U);
}

inline std::uint16_t to_bf16(float value) {
  return kept_finite(value, tensor::to_bfloat16(value), 0x7F80U);
}

}  // namespace coxswain::compress
