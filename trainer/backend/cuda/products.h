#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/backend/cuda/kernels/kernels.h"
#include "trainer/tensor/data_type.h"
#include "trainer/tensor/shape.h"

// What libraries compute: convolutions and matrix products. The description of each is a value; a
// program is linked with one implementation.
namespace coxswain::backend::cuda {

enum class Pass { kForward, kData, kWeights };

// Value. Of what a product reads and writes; d_x and d_y are as x. Sums are made in float32.
struct Types {
  tensor::DataType x = tensor::DataType::kFloat32;  // and w
  tensor::DataType y = tensor::DataType::kFloat32;
  tensor::DataType bias = tensor::DataType::kFloat32;
  tensor::DataType d_w = tensor::DataType::kFloat32;
  bool operator==(const Types&) const = default;
};

// (N, H, W, C) and (K, R, S, C). kForward: y = x * w [+ bias] [relu]; kData: d_x; kWeights: d_w.
struct Convolution {
  Pass pass = Pass::kForward;
  tensor::Shape x;
  tensor::Shape y;
  int kernel = 1;
  int stride = 1;
  int pad = 0;        // before the first row and column
  int pad_after = 0;  // the last
  int groups = 1;     // outputs of one read x.c / groups channels: so many w has
  bool bias = false;  // of kForward
  bool relu = false;  // of kForward
  Types types = {};
  bool operator==(const Convolution&) const = default;
};

// x (rows, in), w (out, in), y (rows, out); passes as above.
struct Dense {
  Pass pass = Pass::kForward;
  std::int64_t rows = 0;
  std::int64_t in = 0;
  std::int64_t out = 0;
  bool bias = false;
  bool relu = false;
  Types types = {};
};

// View. What a product reads and writes, on the device. x, w and y stand for their gradients where
// the pass is about those.
struct Operands {
  void* x = nullptr;
  void* w = nullptr;
  void* y = nullptr;
  const void* bias = nullptr;
};

// A product made ready for one description: enqueues, and allocates nothing. `workspace` points to
// so many bytes of the device. The same operands give the same bits, unless an engine was named.
struct Product {
  std::size_t workspace = 0;
  std::function<void(const Operands&, void* workspace, const Queue& queue)> run;
};

// Resource. The libraries' handles, for the current device. Throws Error when a library lacks a
// kernel.
class Products {
 public:
  Products();
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  Product prepare(const Convolution& convolution);
  // What a convolution may be computed with, by name: prepare()'s own first, then the best guesses,
  // among them engines whose results differ from run to run, and such as prepare_with() refuses.
  std::vector<std::string> engines(const Convolution& convolution);
  std::optional<Product> prepare_with(const std::string& engine, const Convolution& convolution);
  Product prepare(const Dense& dense);
  std::string versions() const;  // "cuDNN 9.13.0 cuBLASLt 13.0.2"

 private:
  struct Handles;
  std::unique_ptr<Handles> handles_;
};

}  // namespace coxswain::backend::cuda
