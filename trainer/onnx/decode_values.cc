#include "trainer/onnx/decode_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "trainer/checkpoint/format.h"
#include "trainer/contract/printable.h"
#include "trainer/onnx/format.h"

namespace coxswain::onnx {

namespace {

[[noreturn]] void refuse_values(std::string_view where, const std::string& what) {
  refuse({.where = std::string(where)}, what);
}

std::optional<ElementType> element_type(std::int64_t number) {
  for (const ElementType type :
       {ElementType::kFloat, ElementType::kInt32, ElementType::kInt64, ElementType::kBool,
        ElementType::kHalf, ElementType::kDouble, ElementType::kBFloat16})
    if (static_cast<std::int64_t>(type) == number) return type;
  return std::nullopt;
}

std::uint64_t width_of(ElementType type) {
  switch (type) {
    case ElementType::kFloat:
    case ElementType::kInt32:
      return 4;
    case ElementType::kInt64:
    case ElementType::kDouble:
      return 8;
    case ElementType::kBool:
      return 1;
    case ElementType::kHalf:
    case ElementType::kBFloat16:
      return 2;
  }
  return 0;
}

template <class Stored, class Held>
void convert(std::span<const std::byte> raw, std::vector<Held>& to) {
  to.resize(raw.size() / sizeof(Stored));
  for (std::size_t i = 0; i < to.size(); ++i) {
    Stored value;
    std::memcpy(&value, raw.data() + i * sizeof(Stored), sizeof(value));
    to[i] = static_cast<Held>(value);
  }
}

}  // namespace

void finish(Tensor& tensor, Payload& payload, std::string_view where) {
  const std::string name = printable(tensor.name, 200);
  std::uint64_t elements = 1;
  for (const std::int64_t dim : tensor.dims) {
    if (dim < 0 || (dim > 0 && static_cast<std::uint64_t>(dim) > kMostElements / elements))
      refuse_values(where,
                    fmt::format("tensor {}: dimension {} of its shape is out of range", name, dim));
    elements *= std::max<std::uint64_t>(1, static_cast<std::uint64_t>(dim));
  }
  const auto type = element_type(payload.type);
  if (!type)
    refuse_values(where, fmt::format("tensor {}: is of type {}, not known", name, payload.type));
  tensor.type = *type;
  if (payload.is_external) {
    tensor.external = payload.external;
    return;
  }
  if (payload.has_raw) {
    take_values(tensor, payload.raw, where);
    return;
  }
  const bool is_halves = *type == ElementType::kHalf || *type == ElementType::kBFloat16;
  if (is_halves) {  // as integers of 32 bits
    std::vector<std::uint16_t> bits(payload.integers.begin(), payload.integers.end());
    take_values(tensor, std::as_bytes(std::span(bits)), where);
    return;
  }
  tensor.floats = std::move(payload.floats);
  tensor.integers = std::move(payload.integers);
  if (payload.has_doubles && *type == ElementType::kDouble)
    convert<double>(payload.doubles, tensor.floats);
  const std::size_t there = is_float(*type) ? tensor.floats.size() : tensor.integers.size();
  if (there != elements_of(tensor.dims))
    refuse_values(where, fmt::format("tensor {}: holds {} values, its shape says {}", name, there,
                                     elements_of(tensor.dims)));
}

std::uint64_t raw_bytes_of(const Tensor& tensor) {
  return elements_of(tensor.dims) * width_of(tensor.type);
}

void take_values(Tensor& tensor, std::span<const std::byte> raw, std::string_view where) {
  if (raw.size() != raw_bytes_of(tensor))
    refuse_values(where,
                  fmt::format("tensor {}: holds {} bytes, its shape says {}",
                              printable(tensor.name, 200), raw.size(), raw_bytes_of(tensor)));
  tensor.external.reset();
  switch (tensor.type) {
    case ElementType::kFloat:
      return convert<float>(raw, tensor.floats);
    case ElementType::kDouble:
      return convert<double>(raw, tensor.floats);
    case ElementType::kHalf:
      tensor.floats = checkpoint::to_floats("F16", raw).value();
      return;
    case ElementType::kBFloat16:
      tensor.floats = checkpoint::to_floats("BF16", raw).value();
      return;
    case ElementType::kInt32:
      return convert<std::int32_t>(raw, tensor.integers);
    case ElementType::kInt64:
      return convert<std::int64_t>(raw, tensor.integers);
    case ElementType::kBool:
      return convert<std::uint8_t>(raw, tensor.integers);
  }
}

}  // namespace coxswain::onnx
