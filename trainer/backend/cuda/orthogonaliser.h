#pragma once

#include <vector>

#include "trainer/backend/cuda/device.h"
#include "trainer/backend/cuda/products.h"
#include "trainer/tensor/parameter_layout.h"

namespace coxswain::backend::cuda {

// Those whose rows Muon makes orthogonal: a segment's outputs.
bool is_matrix(const tensor::Segment& segment);

// Resource. As optim::orthogonalise, but for the norm, all matrices of a flat buffer, with the
// products of a library. Takes twice the buffer's memory.
class Orthogonaliser {
 public:
  Orthogonaliser(const tensor::ParameterLayout& layout, Products& products, const Queue& queue);

  // What is made orthogonal, where it lies in the flat buffer; zeros at first.
  float* directions() const { return reinterpret_cast<float*>(directions_.data()); }
  void run(const Queue& queue) const;

 private:
  struct Call {
    Product product;
    Operands operands;
  };

  void call(const std::vector<Call>& calls, const Queue& queue) const;

  std::int64_t size_ = 0;
  std::int64_t grams_size_ = 0;
  DeviceMemory directions_;
  DeviceMemory moved_;    // times the polynomials
  DeviceMemory grams_;    // of all matrices, then their polynomials
  DeviceMemory squares_;  // of the Gram matrices
  DeviceMemory workspace_;
  std::vector<Call> to_grams_;  // one a matrix, as the others
  std::vector<Call> to_squares_;
  std::vector<Call> to_moved_;
};

}  // namespace coxswain::backend::cuda
