#include <cstdlib>
#include <span>
#include <string_view>

#include "trainer/checkpoint/format.h"
#include "trainer/contract/error.h"

// Any bytes are tensors that fill the data without a hole, or an Error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  using namespace coxswain;
  using namespace coxswain::checkpoint;
  if (size < kLengthBytes) return 0;
  try {
    const auto bytes = std::as_bytes(std::span(input, size));
    const std::uint64_t length = decode_header_length(bytes.first<kLengthBytes>(), size, "input");
    const std::string_view header(reinterpret_cast<const char*>(input) + kLengthBytes, length);
    const std::uint64_t data_bytes = size - kLengthBytes - length;
    std::uint64_t filled = 0;
    for (const TensorPlace& place : decode_safetensors_header(header, data_bytes, "input")) {
      std::uint64_t tensor_bytes = sizeof(float);
      for (const std::int64_t dim : place.dims) tensor_bytes *= static_cast<std::uint64_t>(dim);
      if (place.begin != filled || place.end - place.begin != tensor_bytes) std::abort();
      filled = place.end;
    }
    if (filled != data_bytes) std::abort();
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadInput) std::abort();
  }
  return 0;
}
