#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trainer/backend/cuda/products.h"

struct cudnnContext;  // what a cudnnHandle_t points to

namespace coxswain::backend::cuda {

// The device that is planned for: that of a handle; without one a device that need not be here,
// whose properties are told in the JSON of CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION.
struct CudnnDevice {
  cudnnContext* handle = nullptr;
  std::string properties = {};
  int capability = 0;  // 90: 9.0
};

// Resource. One convolution as a graph of cuDNN's, and the engine that computes it.
class CudnnPlan {
 public:
  explicit CudnnPlan(const Convolution& convolution);
  ~CudnnPlan();
  CudnnPlan(const CudnnPlan&) = delete;
  CudnnPlan& operator=(const CudnnPlan&) = delete;

  // Of the engines that round nothing to TF32, that of this name; or, where none is named, of those
  // that always give the same bits, the first that the heuristics name. Empty, or why there is
  // none. Once.
  std::string build(const CudnnDevice& device, const std::string& engine = "");
  // Once it is built: the engine of the plan, then all others, in the heuristics' order.
  std::vector<std::string> engines() const;
  const Convolution& convolution() const { return convolution_; }

  std::size_t workspace() const;  // bytes
  void run(cudnnContext* handle, const Operands& operands, void* workspace,
           const Queue& queue) const;

  struct Graph;

 private:
  Convolution convolution_;
  std::unique_ptr<Graph> graph_;
};

std::string to_text(const Convolution& convolution);

}  // namespace coxswain::backend::cuda
