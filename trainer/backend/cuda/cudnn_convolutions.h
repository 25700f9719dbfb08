#pragma once

#include <memory>
#include <string>

#include "trainer/backend/cuda/products.h"

namespace coxswain::backend::cuda {

// Resource. Convolutions by cuDNN's graphs: of those of its engines that always give the same bits
// and round nothing to TF32, the first that its heuristics name.
class CudnnConvolutions {
 public:
  CudnnConvolutions();
  ~CudnnConvolutions();
  CudnnConvolutions(const CudnnConvolutions&) = delete;
  CudnnConvolutions& operator=(const CudnnConvolutions&) = delete;

  Product prepare(const Convolution& convolution);
  std::string version() const;

 private:
  struct Handle;
  std::unique_ptr<Handle> handle_;
};

}  // namespace coxswain::backend::cuda
