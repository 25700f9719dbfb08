#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "trainer/onnx/model.h"

namespace coxswain::onnx {

constexpr std::uint64_t kMostElements = std::uint64_t{1} << 31;  // of a tensor

// Value. What a TensorProto says of its values, in any of its ways. Refers to the file's bytes.
struct Payload {
  std::vector<float> floats;
  std::vector<std::int64_t> integers;
  std::span<const std::byte> raw;
  std::span<const std::byte> doubles;
  bool has_raw = false;
  bool has_doubles = false;
  bool is_external = false;
  External external;
  std::int64_t type = 0;
};
// Gives a tensor of a name and dimensions its type and values. Throws Error (65) for a type that is
// not known, and for more or fewer values than the dimensions say.
void finish(Tensor& tensor, Payload& payload, std::string_view where);

}  // namespace coxswain::onnx
