#pragma once

#include <memory>
#include <string>

#include "trainer/backend/cuda/products.h"

namespace coxswain::backend::cuda {

// Resource. Matrix products by cuBLASLt, with sums in float32 whose order doesn't change.
class CublasProducts {
 public:
  CublasProducts();
  ~CublasProducts();
  CublasProducts(const CublasProducts&) = delete;
  CublasProducts& operator=(const CublasProducts&) = delete;

  Product prepare(const Dense& dense);
  std::string version() const;

 private:
  struct Handle;
  std::unique_ptr<Handle> handle_;
};

}  // namespace coxswain::backend::cuda
