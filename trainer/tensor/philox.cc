#include "trainer/tensor/philox.h"

#include <cmath>
#include <numbers>

namespace coxswain::tensor {

std::uint32_t stream_of(std::string_view name) {
  std::uint32_t hash = 2166136261U;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash;
}

std::array<float, 2> to_normal(std::uint32_t a, std::uint32_t b) {
  const double u = (static_cast<double>(a) + 1.0) * 0x1.0p-32;  // (0, 1]: the logarithm exists
  const double v = static_cast<double>(b) * 0x1.0p-32;
  const double radius = std::sqrt(-2.0 * std::log(u));
  const double angle = 2.0 * std::numbers::pi * v;
  return {static_cast<float>(radius * std::cos(angle)),
          static_cast<float>(radius * std::sin(angle))};
}

}  // namespace coxswain::tensor
