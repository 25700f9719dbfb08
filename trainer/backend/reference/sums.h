#pragma once

#include <array>
#include <cstdint>

namespace coxswain::backend::reference {

// The inner loops of convolution and dense layers. They sum in double: then a result is the exact
// one rounded once, whatever the order of its terms, and a difference to a fast backend is that
// backend's own.

// sum[i] += factor * x[i * step]
inline void add_scaled(double* sum, double factor, const float* x, std::int64_t count,
                       std::int64_t step) {
  if (step == 1) {
    for (std::int64_t i = 0; i < count; ++i) sum[i] += factor * static_cast<double>(x[i]);
  } else {
    for (std::int64_t i = 0; i < count; ++i) sum[i] += factor * static_cast<double>(x[i * step]);
  }
}

// sum[i * step] += factor * x[i]
inline void scatter_scaled(double* sum, double factor, const float* x, std::int64_t count,
                           std::int64_t step) {
  if (step == 1) {
    add_scaled(sum, factor, x, count, 1);
  } else {
    for (std::int64_t i = 0; i < count; ++i) sum[i * step] += factor * static_cast<double>(x[i]);
  }
}

// The sum of a[i] * b[i * step], in eight interleaved parts so that the additions need not wait.
inline double dot(const float* a, const float* b, std::int64_t count, std::int64_t step) {
  constexpr std::int64_t kParts = 8;
  std::array<double, kParts> parts{};
  std::int64_t i = 0;
  for (; i + kParts <= count; i += kParts) {
    for (std::int64_t p = 0; p < kParts; ++p) {
      const double product = static_cast<double>(a[i + p]) * static_cast<double>(b[(i + p) * step]);
      parts[static_cast<std::size_t>(p)] += product;
    }
  }
  double sum = 0;
  for (const double part : parts) sum += part;
  for (; i < count; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i * step]);
  return sum;
}

}  // namespace coxswain::backend::reference
