#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "trainer/backend/cuda/check.h"
#include "trainer/backend/cuda/kernels/element.h"
#include "trainer/backend/cuda/kernels/kernels.h"

// For the kernels' own sources.
namespace coxswain::backend::cuda {

constexpr unsigned int kThreads = 256;
constexpr int kBlocksPerMultiprocessor = 8;  // of 256 threads: all 2048 that one holds

inline cudaLaunchConfig_t grid(const Queue& queue, dim3 blocks, dim3 threads) {
  cudaLaunchConfig_t config = {};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.stream = queue.stream;
  return config;
}

// For loops over elements, each of which goes on by loop_stride().
inline cudaLaunchConfig_t loop_over(const Queue& queue, std::int64_t count) {
  const std::int64_t wanted = (count + kThreads - 1) / kThreads;
  const std::int64_t most = std::int64_t{queue.multiprocessors} * kBlocksPerMultiprocessor;
  const auto blocks = static_cast<unsigned int>(std::clamp<std::int64_t>(wanted, 1, most));
  return grid(queue, dim3{blocks, 1, 1}, dim3{kThreads, 1, 1});
}

namespace {

[[maybe_unused]] __device__ std::int64_t loop_start() {
  return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
[[maybe_unused]] __device__ std::int64_t loop_stride() {
  return std::int64_t{gridDim.x} * blockDim.x;
}

// As the reference's: NaN stays NaN; tanh is the exact one, rounded once.
[[maybe_unused]] __device__ float activated(Activation activation, float value) {
  if (activation == Activation::kRelu) return value < 0 ? 0 : value;
  if (activation == Activation::kTanh) return static_cast<float>(tanh(static_cast<double>(value)));
  return value;
}

[[maybe_unused]] __device__ float derivative_at_output(Activation activation, float y) {
  if (activation == Activation::kRelu) return y > 0 ? 1.0F : 0.0F;
  if (activation == Activation::kTanh) return 1 - y * y;
  return 1;
}

}  // namespace

}  // namespace coxswain::backend::cuda
