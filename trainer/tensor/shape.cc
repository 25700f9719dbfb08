#include "trainer/tensor/shape.h"

#include <fmt/format.h>

namespace coxswain::tensor {

std::string to_text(const Shape& shape) {
  return fmt::format("{}x{}x{}x{}", shape.n, shape.c, shape.h, shape.w);
}

}  // namespace coxswain::tensor
