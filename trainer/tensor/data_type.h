#pragma once

#include <bit>
#include <cstdint>

namespace coxswain::tensor {

enum class DataType { kFloat32, kBFloat16, kFloat16 };

constexpr const char* name_of(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return "f32";
    case DataType::kBFloat16:
      return "bf16";
    case DataType::kFloat16:
      break;
  }
  return "f16";
}

constexpr std::int64_t size_of(DataType type) { return type == DataType::kFloat32 ? 4 : 2; }

// The upper half of a float32, rounded to nearest even; NaN stays NaN. constexpr, as all that a
// device's kernels call too.
constexpr std::uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (value != value) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

constexpr float from_bfloat16(std::uint16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

// IEEE 754 binary16, rounded to nearest even: infinity beyond its largest value, 65504. Without
// branches, so that loops over it are vectorised.
constexpr std::uint16_t to_float16(float value) {
  constexpr std::uint32_t kSign = 0x80000000U;
  constexpr std::uint32_t kInfinity = 0x7F800000U;
  constexpr std::uint32_t kBeyond = 143U << 23;  // 65536, which becomes infinity
  constexpr std::uint32_t kLeastNormal = 113U << 23;
  constexpr std::uint32_t kHalf = 126U << 23;  // 0.5, whose last bit is that of the least half
  constexpr std::uint32_t kRebias = 112U << 23;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & ~kSign;
  const std::uint32_t finite = magnitude < kBeyond ? magnitude : kBeyond;
  const std::uint32_t normal = (finite - kRebias + 0xFFFU + ((finite >> 13) & 1U)) >> 13;
  const float shifted = std::bit_cast<float>(finite) + std::bit_cast<float>(kHalf);
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(shifted) - kHalf;
  const std::uint32_t small = finite < kLeastNormal ? subnormal : normal;
  return static_cast<std::uint16_t>((magnitude > kInfinity ? 0x7E00U : small) |
                                    ((bits & kSign) >> 16));
}

constexpr float from_float16(std::uint16_t value) {
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

constexpr float round_to(DataType type, float value) {
  switch (type) {
    case DataType::kFloat32:
      break;
    case DataType::kBFloat16:
      return from_bfloat16(to_bfloat16(value));
    case DataType::kFloat16:
      return from_float16(to_float16(value));
  }
  return value;
}

}  // namespace coxswain::tensor
