#pragma once

#include <cstdint>
#include <string>

namespace coxswain::tensor {

// Value. The extent of an activation, (N, C, H, W); a matrix is (N, C, 1, 1).
struct Shape {
  std::int64_t n = 1;
  std::int64_t c = 1;
  std::int64_t h = 1;
  std::int64_t w = 1;

  std::int64_t elements() const { return n * c * h * w; }
  std::int64_t per_sample() const { return c * h * w; }
  bool operator==(const Shape&) const = default;
};

// "64x20x24x24"
std::string to_text(const Shape& shape);

}  // namespace coxswain::tensor
