#include "trainer/checkpoint/format_mxnet.h"

#include <fmt/format.h>

#include <cstring>
#include <optional>

#include "trainer/checkpoint/format.h"
#include "trainer/checkpoint/format_json.h"

namespace coxswain::checkpoint {

namespace {

// dmlc's streams of a little-endian machine: numbers as they are, a vector as its length in 64 bits
// and its elements.
constexpr std::uint64_t kList = 0x112;
constexpr std::uint32_t kArrayV2 = 0xF993FAC9;  // with the kind of storage
constexpr std::uint32_t kArrayV3 = 0xF993FACA;  // and shapes as NumPy's
constexpr std::int32_t kDense = 0;
constexpr std::uint64_t kMostArrays = 1 << 20;
constexpr std::uint32_t kMostDims = 8;
constexpr std::uint64_t kMostName = 4096;
constexpr std::uint64_t kMostOfTensor = 1ULL << 62;

// Value. Bytes of a list, from the front.
class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, std::string_view where) : left_(bytes), where_(where) {}

  std::span<const std::byte> take(std::uint64_t count) {
    if (count > left_.size())
      refuse(where_, fmt::format("ends {} bytes before its contents do", count - left_.size()));
    const auto taken = left_.first(count);
    left_ = left_.subspan(count);
    return taken;
  }

  template <class Number>
  Number number() {
    Number value;
    std::memcpy(&value, take(sizeof(value)).data(), sizeof(value));
    return value;
  }

  bool is_at_end() const { return left_.empty(); }

 private:
  std::span<const std::byte> left_;
  std::string_view where_;
};

struct Type {
  std::string_view name;  // safetensors'
  std::uint64_t bytes;
};

// mshadow's TypeFlag.
std::optional<Type> type_of(std::int32_t flag) {
  constexpr Type kTypes[] = {{"F32", 4}, {"F64", 8}, {"F16", 2}, {"U8", 1},
                             {"I32", 4}, {"I8", 1},  {"I64", 8}};
  if (flag < 0 || flag >= static_cast<std::int32_t>(std::size(kTypes))) return std::nullopt;
  return kTypes[flag];
}

struct Array {
  std::vector<std::int64_t> dims;
  std::optional<std::vector<float>> values;  // nothing: of no float type that is read
};

Array decode_array(Cursor& cursor, const std::string& where) {
  const auto magic = cursor.number<std::uint32_t>();
  if (magic != kArrayV2 && magic != kArrayV3)
    refuse(where, fmt::format("begins with 0x{:08x}, not as an array of MXNet 1.x", magic));
  if (cursor.number<std::int32_t>() != kDense) refuse(where, "is a sparse array");
  const auto dims = cursor.number<std::uint32_t>();
  if (dims == 0 || dims > kMostDims)
    refuse(where, fmt::format("has {} dimensions, 1 to {} are known", dims, kMostDims));
  Array array;
  std::uint64_t elements = 1;
  for (std::uint32_t i = 0; i < dims; ++i) {
    const auto dim = cursor.number<std::int64_t>();
    if (dim < 1 || static_cast<std::uint64_t>(dim) > kMostOfTensor / 8 / elements)
      refuse(where, fmt::format("dimension {} of its shape is out of range", dim));
    elements *= static_cast<std::uint64_t>(dim);
    array.dims.push_back(dim);
  }
  cursor.take(2 * sizeof(std::int32_t));  // the device it was on
  const auto flag = cursor.number<std::int32_t>();
  const auto type = type_of(flag);
  if (!type) refuse(where, fmt::format("is of type {}, which is not known", flag));
  array.values = to_floats(type->name, cursor.take(elements * type->bytes));
  return array;
}

}  // namespace

bool is_mxnet(std::span<const std::byte> bytes) {
  std::uint64_t magic = 0;
  if (bytes.size() < sizeof(magic)) return false;
  std::memcpy(&magic, bytes.data(), sizeof(magic));
  return magic == kList;
}

ForeignWeights decode_mxnet(std::span<const std::byte> bytes, std::string_view where) {
  Cursor cursor(bytes, where);
  cursor.take(2 * sizeof(std::uint64_t));  // what it is, and nothing
  const auto count = cursor.number<std::uint64_t>();
  if (count > kMostArrays) refuse(where, fmt::format("claims {} arrays", count));
  std::vector<Array> arrays;
  for (std::uint64_t i = 0; i < count; ++i)
    arrays.push_back(decode_array(cursor, fmt::format("{}: array {}", where, i)));
  if (cursor.number<std::uint64_t>() != count) refuse(where, "has arrays without names");
  ForeignWeights weights;
  for (Array& array : arrays) {
    const auto length = cursor.number<std::uint64_t>();
    if (length > kMostName) refuse(where, fmt::format("has a name of {} bytes", length));
    const auto text = cursor.take(length);
    std::string name(reinterpret_cast<const char*>(text.data()), text.size());
    if (array.values)
      weights.tensors.push_back({std::move(name), std::move(array.dims), std::move(*array.values)});
    else
      weights.passed_over.push_back(std::move(name));
  }
  if (!cursor.is_at_end()) refuse(where, "goes on after its contents");
  return weights;
}

}  // namespace coxswain::checkpoint
