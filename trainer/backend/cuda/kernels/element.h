#pragma once

#include <cstdint>
#include <cstdlib>
#include <type_traits>

#include "trainer/tensor/data_type.h"

// For the kernels' own sources: what they read and write is float, or a type that becomes a float
// as it is read and is rounded as it is written.
namespace coxswain::backend::cuda {

struct BFloat16 {
  std::uint16_t bits;
  constexpr BFloat16(float value) : bits(tensor::to_bfloat16(value)) {}
  constexpr operator float() const { return tensor::from_bfloat16(bits); }
};

struct Float16 {
  std::uint16_t bits;
  constexpr Float16(float value) : bits(tensor::to_float16(value)) {}
  constexpr operator float() const { return tensor::from_float16(bits); }
};

// Calls visit(std::type_identity<Element>()).
template <class Visit>
void with_type(tensor::DataType type, const Visit& visit) {
  switch (type) {
    case tensor::DataType::kFloat32:
      return visit(std::type_identity<float>());
    case tensor::DataType::kBFloat16:
      return visit(std::type_identity<BFloat16>());
    case tensor::DataType::kFloat16:
      return visit(std::type_identity<Float16>());
  }
  std::abort();
}

}  // namespace coxswain::backend::cuda
