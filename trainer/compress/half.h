#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "trainer/tensor/data_type.h"

// PURE: halves of a float32, without branches, so that loops over them are vectorised.
namespace coxswain::compress {

constexpr std::uint32_t kSign = 0x80000000U;
constexpr std::uint32_t kInfinity = 0x7F800000U;

// An integer's comparison, for loops over all of an array.
inline bool is_finite(float value) {
  return (std::bit_cast<std::uint32_t>(value) & kInfinity) != kInfinity;
}

// IEEE 754 binary16, rounded to nearest even; beyond its largest value, 65504, that one. Infinities
// and NaN stay.
inline std::uint16_t to_fp16(float value) {
  constexpr std::uint32_t kLargest = 0x477FE000U;  // 65504
  constexpr std::uint32_t kLeastNormal = 113U << 23;
  constexpr std::uint32_t kHalf = 126U << 23;  // 0.5, whose last bit is that of the least half
  constexpr std::uint32_t kRebias = 112U << 23;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & ~kSign;
  const std::uint32_t finite = std::min(magnitude, kLargest);
  const std::uint32_t normal = (finite - kRebias + 0xFFFU + ((finite >> 13) & 1U)) >> 13;
  const float shifted = std::bit_cast<float>(finite) + std::bit_cast<float>(kHalf);
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(shifted) - kHalf;
  const std::uint32_t small = finite < kLeastNormal ? subnormal : normal;
  const std::uint32_t special = magnitude > kInfinity ? 0x7E00U : 0x7C00U;
  return static_cast<std::uint16_t>((magnitude >= kInfinity ? special : small) |
                                    ((bits & kSign) >> 16));
}

inline float from_fp16(std::uint16_t value) {
  constexpr std::uint32_t kExponent = 0x7C00U << 13;
  constexpr std::uint32_t kRebias = 112U << 23;
  constexpr std::uint32_t kLeastNormal = 113U << 23;
  const std::uint32_t shifted = (value & 0x7FFFU) << 13;
  const std::uint32_t exponent = shifted & kExponent;
  const std::uint32_t normal = shifted + kRebias;
  const float subnormal =
      std::bit_cast<float>(normal + (1U << 23)) - std::bit_cast<float>(kLeastNormal);
  const std::uint32_t small = exponent == 0 ? std::bit_cast<std::uint32_t>(subnormal) : normal;
  const std::uint32_t magnitude = exponent == kExponent ? normal + kRebias : small;
  return std::bit_cast<float>(magnitude | ((value & 0x8000U) << 16));
}

// As tensor::to_bfloat16; beyond the largest value, that one.
inline std::uint16_t to_bf16(float value) {
  const std::uint16_t rounded = tensor::to_bfloat16(value);
  const bool overflows = is_finite(value) && (rounded & 0x7FFFU) == 0x7F80U;
  return static_cast<std::uint16_t>(overflows ? rounded - 1 : rounded);
}

}  // namespace coxswain::compress
