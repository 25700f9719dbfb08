#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace coxswain::tensor {

enum class DataType { kFloat32, kBFloat16 };

constexpr std::int64_t size_of(DataType type) { return type == DataType::kFloat32 ? 4 : 2; }

// The upper half of a float32, rounded to nearest even; NaN stays NaN.
inline std::uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

inline float from_bfloat16(std::uint16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

inline float round_to(DataType type, float value) {
  return type == DataType::kFloat32 ? value : from_bfloat16(to_bfloat16(value));
}

}  // namespace coxswain::tensor
