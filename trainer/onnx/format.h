#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "trainer/onnx/model.h"

// What the bytes of an ONNX file mean. PURE.
namespace coxswain::onnx {

constexpr std::uint64_t kMostModelBytes = (std::uint64_t{1} << 31) - 1;  // of a protobuf message

// Throws Error (65) that begins with `where`: for what is no ModelProto, or one of more than 10,000
// nodes or 20,000 tensors, or with a tensor whose values are not as many as its shape says.
Model decode_model(std::span<const std::byte> bytes, std::string_view where);

// Gives a tensor that is external its values.
void take_values(Tensor& tensor, std::span<const std::byte> raw, std::string_view where);
std::uint64_t raw_bytes_of(const Tensor& tensor);

// Floats are written in 32 bits. The same model is the same bytes.
std::string encode(const Model& model);

}  // namespace coxswain::onnx
