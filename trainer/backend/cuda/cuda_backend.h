#pragma once

#include <memory>
#include <string>

#include "trainer/backend/backend.h"

namespace coxswain::backend {

// One GPU: `device` of those that the process sees. Activations are (N, H, W, C), of the types that
// the program gives them, weights (K, R, S, C); sums are made in float32 or double, without TF32,
// in an order that is always the same. Throws Error in one line where there is no such GPU or no
// driver.
std::unique_ptr<Backend> make_cuda_backend(int device);

// Those that this process sees; 0 without a driver, or where the program was built without CUDA.
int count_gpus();

// Where the GPU is on the PCI bus: "0000:3B:00.0"; "" where that is not to be had.
std::string pci_id_of(int device);

namespace cuda {
struct Shared;
// What a communicator enqueues its sums beside, of such a backend; lives as long as that.
Shared& shared_of(Backend& backend);
}  // namespace cuda

}  // namespace coxswain::backend
