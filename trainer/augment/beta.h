#pragma once

#include <cmath>
#include <numbers>

#include "trainer/augment/image.h"

namespace coxswain::augment {

// The logarithm of a number of the gamma distribution (Marsaglia and Tsang, "A simple method for
// generating gamma variables", ACM TOMS 2000); below 1 that of shape + 1 times u^(1/shape), which
// as itself would be 0 for small shapes. Takes words of `random` from `index` on.
inline double log_gamma_number(double shape, const Random& random, std::uint32_t index) {
  const auto above_0 = [](std::uint32_t word) { return (word + 1.0) * 0x1.0p-32; };
  const double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3;
  for (;; ++index) {
    const auto words = random.words(index);
    const double normal = std::sqrt(-2 * std::log(above_0(words[0]))) *
                          std::cos(2 * std::numbers::pi * uniform(words[1]));
    const double root = 1 + normal / std::sqrt(9 * d);
    if (root <= 0) continue;
    const double v = root * root * root;
    if (std::log(above_0(words[2])) >= normal * normal / 2 + d - d * v + d * std::log(v)) continue;
    const double below_1 = shape < 1 ? std::log(above_0(words[3])) / shape : 0;
    return std::log(d * v) + below_1;
  }
}

// A number of Beta(alpha, alpha). Takes words of `random` from 1 on; the first are free.
inline double beta_number(double alpha, const Random& random) {
  constexpr std::uint32_t kApart = 1U << 16;  // no draw takes as many
  const double a = log_gamma_number(alpha, random, 1);
  const double b = log_gamma_number(alpha, random, 1 + kApart);
  return 1 / (1 + std::exp(b - a));
}

}  // namespace coxswain::augment
