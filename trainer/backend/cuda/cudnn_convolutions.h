#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/backend/cuda/products.h"

namespace coxswain::backend::cuda {

class CudnnPlan;

// Resource. Convolutions by cuDNN's graphs: of those of its engines that always give the same bits
// and round nothing to TF32, the first that its heuristics name, or that which is asked for.
class CudnnConvolutions {
 public:
  CudnnConvolutions();
  ~CudnnConvolutions();
  CudnnConvolutions(const CudnnConvolutions&) = delete;
  CudnnConvolutions& operator=(const CudnnConvolutions&) = delete;

  Product prepare(const Convolution& convolution);
  // As Products has them.
  std::vector<std::string> engines(const Convolution& convolution);
  std::optional<Product> prepare_with(const std::string& engine, const Convolution& convolution);
  std::string version() const;

 private:
  struct Handle;
  // A plan by this engine, or by that which the heuristics give where none is named: of the whole,
  // or, where there is none, of the convolution alone.
  std::shared_ptr<CudnnPlan> plan(const Convolution& convolution, const std::string& engine,
                                  std::string& refusal);
  Product to_product(std::shared_ptr<CudnnPlan> plan, const Convolution& whole);

  std::unique_ptr<Handle> handle_;
};

}  // namespace coxswain::backend::cuda
