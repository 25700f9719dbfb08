#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "trainer/checkpoint/format.h"
#include "trainer/checkpoint/format_json.h"
#include "trainer/tensor/data_type.h"

namespace coxswain::checkpoint {

namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian");

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
constexpr std::uint64_t kMaxTensorBytes = 1ULL << 62;
constexpr std::size_t kMaxDims = 8;
constexpr int kHeaderDepth = 3;  // tensor, shape, dimension

// 0: not a type of the format.
std::uint64_t bytes_of_element(std::string_view type) {
  constexpr std::pair<std::string_view, std::uint64_t> kSizes[] = {
      {"F32", 4},  {"F16", 2}, {"BF16", 2},    {"F64", 8},     {"I64", 8},    {"I32", 4},
      {"I16", 2},  {"I8", 1},  {"U64", 8},     {"U32", 4},     {"U16", 2},    {"U8", 1},
      {"BOOL", 1}, {"C64", 8}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1}};
  const auto* const found =
      std::ranges::find(kSizes, type, &std::pair<std::string_view, std::uint64_t>::first);
  return found == std::end(kSizes) ? 0 : found->second;
}

std::uint64_t bytes_of(std::uint64_t element, const std::vector<std::int64_t>& dims,
                       std::string_view where) {
  std::uint64_t bytes = element;
  for (const std::int64_t dim : dims) {
    const auto extent = static_cast<std::uint64_t>(dim);
    if (bytes != 0 && extent > kMaxTensorBytes / bytes) refuse(where, "shape is too large");
    bytes *= extent;
  }
  return bytes;
}

std::vector<std::int64_t> decode_dims(const json& shape, Types types, const std::string& where) {
  if (shape.size() > kMaxDims) {
    refuse(where,
           fmt::format("shape has {} dimensions, at most {} are known", shape.size(), kMaxDims));
  }
  const std::uint64_t least = types == Types::kAny ? 0 : 1;
  std::vector<std::int64_t> dims;
  for (const json& dim : shape) {
    if (!dim.is_number_unsigned() || dim < least || dim.get<std::uint64_t>() > kMaxTensorBytes) {
      refuse(where, fmt::format("dimension {} of the shape is out of range", dim.dump()));
    }
    dims.push_back(dim.get<std::int64_t>());
  }
  return dims;
}

TensorPlace decode_tensor(const std::string& name, const json& value, std::uint64_t data_bytes,
                          std::string_view file, Types types) {
  const std::string where = fmt::format("{}: tensor {}", file, in_quotes(name));
  JsonFields fields(value, where);
  const std::string dtype = fields.text("dtype");
  const std::uint64_t element = bytes_of_element(dtype);
  if (types == Types::kFloats && dtype != "F32")
    refuse(where, fmt::format("dtype {} is not F32", in_quotes(dtype)));
  if (element == 0) refuse(where, fmt::format("dtype {} is not known", in_quotes(dtype)));
  TensorPlace place{
      .name = name, .type = dtype, .dims = decode_dims(fields.array("shape"), types, where)};
  const json& offsets = fields.array("data_offsets");
  fields.finish();
  if (offsets.size() != 2 || !offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned()) {
    refuse(where, "data_offsets is not a pair of byte positions");
  }
  place.begin = offsets[0].get<std::uint64_t>();
  place.end = offsets[1].get<std::uint64_t>();
  if (place.begin > place.end || place.end > data_bytes) {
    refuse(where, fmt::format("range {} to {} is outside of the data of {} bytes", place.begin,
                              place.end, data_bytes));
  }
  const std::uint64_t expected = bytes_of(element, place.dims, where);
  if (place.end - place.begin != expected) {
    refuse(where, fmt::format("range of {} bytes, but the shape needs {}", place.end - place.begin,
                              expected));
  }
  return place;
}

}  // namespace

std::string encode_safetensors_header(const std::vector<NamedTensor>& tensors) {
  std::string text = "{";  // an ordered_json looks through all members for each new one
  std::uint64_t offset = 0;
  for (const NamedTensor& tensor : tensors) {
    const std::uint64_t end = offset + tensor.values.size() * sizeof(float);
    const nlohmann::ordered_json place = {
        {"dtype", "F32"}, {"shape", tensor.dims}, {"data_offsets", {offset, end}}};
    if (text.size() > 1) text += ',';
    text += json(tensor.name).dump() + ':' + place.dump();
    offset = end;
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const auto length = static_cast<std::uint64_t>(text.size());
  std::string encoded(sizeof(length), '\0');
  std::memcpy(encoded.data(), &length, sizeof(length));
  return encoded + text;
}

std::uint64_t decode_header_length(std::span<const std::byte, kLengthBytes> bytes,
                                   std::uint64_t file_bytes, std::string_view where) {
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  if (file_bytes < kLengthBytes || length > file_bytes - kLengthBytes) {
    refuse(where, fmt::format("header of {} bytes exceeds the file of {}", length, file_bytes));
  }
  if (length > kMaxHeaderBytes) {
    refuse(where,
           fmt::format("header of {} bytes is above the limit of {}", length, kMaxHeaderBytes));
  }
  return length;
}

std::vector<TensorPlace> decode_safetensors_header(std::string_view header,
                                                   std::uint64_t data_bytes, std::string_view where,
                                                   Types types) {
  const json parsed = parse_json_object(header, kHeaderDepth, where);
  std::vector<TensorPlace> places;
  for (const auto& [name, value] : parsed.items()) {
    if (name == "__metadata__") continue;
    places.push_back(decode_tensor(name, value, data_bytes, where, types));
  }
  std::ranges::sort(places, {}, [](const TensorPlace& place) {
    return std::pair(place.begin, place.end);  // what is empty comes before what begins there
  });
  std::uint64_t expected = 0;
  for (const TensorPlace& place : places) {
    if (place.begin != expected) {
      refuse(where, fmt::format("tensor {}: range begins at byte {}, expected {}: tensors overlap "
                                "or leave a hole",
                                in_quotes(place.name), place.begin, expected));
    }
    expected = place.end;
  }
  if (expected != data_bytes) {
    refuse(where,
           fmt::format("tensors fill {} bytes, but the file holds {}", expected, data_bytes));
  }
  return places;
}

std::optional<std::vector<float>> to_floats(std::string_view type,
                                            std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / std::max<std::uint64_t>(1, bytes_of_element(type)));
  if (type == "F32") {
    std::ranges::copy(bytes, std::as_writable_bytes(std::span(values)).begin());
    return values;
  }
  if (type != "F16" && type != "BF16") return std::nullopt;
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t half = 0;
    std::memcpy(&half, bytes.data() + i * sizeof(half), sizeof(half));
    values[i] = type == "F16" ? tensor::from_float16(half) : tensor::from_bfloat16(half);
  }
  return values;
}

bool all_finite(std::span<const float> values) {
  // All exponent bits set means infinite or no number; loops over integers are vectorised.
  constexpr std::uint32_t kExponent = 0x7F800000U;
  std::uint32_t found = 0;
  for (const float value : values) {
    found |= (std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent ? 1U : 0U;
  }
  return found == 0;
}

}  // namespace coxswain::checkpoint
