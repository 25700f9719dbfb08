#include <cstdlib>
#include <span>

#include "trainer/checkpoint/weights_file.h"
#include "trainer/contract/error.h"

// Any bytes are tensors as large as their shapes say, or an Error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  using namespace coxswain;
  using namespace coxswain::checkpoint;
  try {
    const ForeignWeights weights = decode_weights(std::as_bytes(std::span(input, size)), "input");
    for (const NamedTensor& tensor : weights.tensors) {
      std::size_t elements = 1;
      for (const std::int64_t dim : tensor.dims) elements *= static_cast<std::size_t>(dim);
      if (tensor.values.size() != elements) std::abort();
      if (model_name(tensor.name).size() > tensor.name.size() + 1) std::abort();
    }
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadInput) std::abort();
  }
  return 0;
}
