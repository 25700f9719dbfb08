#include "trainer/backend/cuda/cuda_backend.h"
#include "trainer/contract/error.h"

namespace coxswain::backend {

std::unique_ptr<Backend> make_cuda_backend(int /*device*/) {
  throw Error(
      ExitCode::kBadInput,
      "[train] device cuda: this program was built without CUDA: build it with cmake/build.sh "
      "cuda (docs/gpu.md), or say device: cpu");
}

int count_gpus() { return 0; }

std::string pci_id_of(int /*device*/) { return ""; }

}  // namespace coxswain::backend
