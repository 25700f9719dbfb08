#pragma once

#include <memory>

#include "trainer/backend/backend.h"

namespace coxswain::backend {

struct OneDnnOptions {
  int threads = 1;             // OpenMP threads of every step; part of the fingerprint
  bool winograd = false;       // 3x3 convolutions in float32: fewer multiplications, other rounding
  Algorithms algorithms = {};  // of convolutions
};

// The backend for CPUs, on oneDNN. Weights are stored as its weight-gradient kernels want them.
std::unique_ptr<Backend> make_onednn_backend(const OneDnnOptions& options);

}  // namespace coxswain::backend
