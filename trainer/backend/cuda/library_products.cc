#include "trainer/backend/cuda/cublas_products.h"
#include "trainer/backend/cuda/cudnn_convolutions.h"
#include "trainer/backend/cuda/products.h"

namespace coxswain::backend::cuda {

struct Products::Handles {
  CudnnConvolutions convolutions;
  CublasProducts dense;
};

Products::Products() : handles_(std::make_unique<Handles>()) {}
Products::~Products() = default;

Product Products::prepare(const Convolution& convolution) {
  return handles_->convolutions.prepare(convolution);
}

std::vector<std::string> Products::engines(const Convolution& convolution) {
  return handles_->convolutions.engines(convolution);
}

std::optional<Product> Products::prepare_with(const std::string& engine,
                                              const Convolution& convolution) {
  return handles_->convolutions.prepare_with(engine, convolution);
}

Product Products::prepare(const Dense& dense) { return handles_->dense.prepare(dense); }

std::string Products::versions() const {
  return handles_->convolutions.version() + " " + handles_->dense.version();
}

}  // namespace coxswain::backend::cuda
