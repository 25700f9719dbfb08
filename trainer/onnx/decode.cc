#include <fmt/format.h>

#include <charconv>
#include <protozero/pbf_reader.hpp>

#include "trainer/contract/error.h"
#include "trainer/contract/printable.h"
#include "trainer/onnx/decode_values.h"
#include "trainer/onnx/fields.h"
#include "trainer/onnx/format.h"

namespace coxswain::onnx {

namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;

constexpr std::size_t kMostNodes = 10'000;
constexpr std::size_t kMostTensors = 20'000;
constexpr std::size_t kMostInList = 10'000;  // inputs of a node, its attributes, integers of one
constexpr std::size_t kMostDims = 8;
constexpr std::size_t kMostName = 1000;

constexpr auto kText = pbf_wire_type::length_delimited;
constexpr auto kNumber = pbf_wire_type::varint;
constexpr auto kFixed = pbf_wire_type::fixed32;

constexpr std::uint32_t key(int tag, pbf_wire_type type) {
  return protozero::tag_and_type(static_cast<protozero::pbf_tag_type>(tag), type);
}

std::span<const std::byte> bytes_of(const protozero::data_view& view) {
  return std::as_bytes(std::span(view.data(), view.size()));
}

// Reads messages; a field that it does not know, or of another type than it is of, is passed over.
class Decoder {
 public:
  explicit Decoder(std::string_view where) : where_(where) {}

  Model model(pbf_reader reader) const {
    Model result{.where = std::string(where_)};
    bool has_graph = false;
    while (reader.next()) {
      switch (reader.tag_and_type()) {
        case key(field::model::kGraph, kText):
          if (has_graph) refuse("holds two graphs");
          has_graph = true;
          graph(reader.get_message(), result);
          break;
        case key(field::model::kOpset, kText):
          opset(reader.get_message(), result);
          break;
        default:
          reader.skip();
      }
    }
    if (!has_graph) refuse("is no ONNX model: it holds no graph");
    return result;
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ExitCode::kBadInput, fmt::format("[model] {}: {}", where_, what));
  }

 private:
  template <class List>
  void limit(const List& list, std::size_t most, std::string_view what) const {
    if (list.size() > most) refuse(fmt::format("more than {} {}", most, what));
  }

  std::string text(pbf_reader& reader) const {
    const auto view = reader.get_view();
    if (view.size() > kMostName) refuse(fmt::format("a name of {} bytes", view.size()));
    return {view.data(), view.size()};
  }

  static void opset(pbf_reader reader, Model& to) {
    std::string_view domain;
    std::int64_t version = 0;
    while (reader.next()) {
      if (reader.tag_and_type() == key(field::opset::kDomain, kText)) {
        const auto view = reader.get_view();
        domain = {view.data(), view.size()};
      } else if (reader.tag_and_type() == key(field::opset::kVersion, kNumber)) {
        version = reader.get_int64();
      } else {
        reader.skip();
      }
    }
    if (domain.empty() || domain == "ai.onnx") to.opset = version;
  }

  void graph(pbf_reader reader, Model& to) const {
    while (reader.next()) {
      switch (reader.tag_and_type()) {
        case key(field::graph::kNode, kText):
          to.nodes.push_back(node(reader.get_message()));
          limit(to.nodes, kMostNodes, "nodes");
          break;
        case key(field::graph::kInitializer, kText):
          to.tensors.push_back(tensor(reader.get_message()));
          limit(to.tensors, kMostTensors, "tensors");
          break;
        case key(field::graph::kInput, kText):
          to.inputs.push_back(port(reader.get_message()));
          limit(to.inputs, kMostTensors, "inputs");
          break;
        case key(field::graph::kOutput, kText):
          to.outputs.push_back(port(reader.get_message()));
          limit(to.outputs, kMostInList, "outputs");
          break;
        case key(field::graph::kSparse, kText):
          refuse("holds sparse tensors, which are not known");
        default:
          reader.skip();
      }
    }
  }

  Node node(pbf_reader reader) const {
    Node result;
    while (reader.next()) {
      switch (reader.tag_and_type()) {
        case key(field::node::kInput, kText):
          result.inputs.push_back(text(reader));
          limit(result.inputs, kMostInList, "inputs of a node");
          break;
        case key(field::node::kOutput, kText):
          result.outputs.push_back(text(reader));
          limit(result.outputs, kMostInList, "outputs of a node");
          break;
        case key(field::node::kName, kText):
          result.name = text(reader);
          break;
        case key(field::node::kOp, kText):
          result.op = text(reader);
          break;
        case key(field::node::kDomain, kText):
          result.domain = text(reader);
          break;
        case key(field::node::kAttribute, kText):
          result.attributes.push_back(attribute(reader.get_message()));
          limit(result.attributes, kMostInList, "attributes of a node");
          break;
        default:
          reader.skip();
      }
    }
    return result;
  }

  // Numbers that are zero may be left out; its type says then what it is.
  static void fill(Attribute& attribute, int type) {
    if (attribute.value.index() != 0) return;
    if (type == field::attribute::kIsFloat) attribute.value = 0.0F;
    if (type == field::attribute::kIsInt) attribute.value = std::int64_t{0};
    if (type == field::attribute::kIsString) attribute.value = std::string();
    if (type == field::attribute::kIsFloats) attribute.value = std::vector<float>();
    if (type == field::attribute::kIsInts) attribute.value = std::vector<std::int64_t>();
  }

  Attribute attribute(pbf_reader reader) const {
    Attribute result;
    std::vector<std::int64_t> integers;
    std::vector<float> floats;
    int type = 0;
    while (reader.next()) {
      switch (reader.tag_and_type()) {
        case key(field::attribute::kName, kText):
          result.name = text(reader);
          break;
        case key(field::attribute::kFloat, kFixed):
          result.value = reader.get_float();
          break;
        case key(field::attribute::kInt, kNumber):
          result.value = reader.get_int64();
          break;
        case key(field::attribute::kString, kText):
          result.value = text(reader);
          break;
        case key(field::attribute::kTensor, kText):
          result.value = tensor(reader.get_message());
          break;
        case key(field::attribute::kType, kNumber):
          type = reader.get_enum();
          break;
        default:
          if (!add_integers(reader, field::attribute::kInts, integers, kMostInList) &&
              !add_floats(reader, field::attribute::kFloats, floats, kMostInList))
            reader.skip();
      }
    }
    if (!integers.empty()) result.value = std::move(integers);
    if (!floats.empty()) result.value = std::move(floats);
    fill(result, type);
    return result;
  }

  // Repeated numbers are one field each, or all in one.
  bool add_integers(pbf_reader& reader, int tag, std::vector<std::int64_t>& to,
                    std::size_t most) const {
    if (reader.tag_and_type() == key(tag, kNumber)) {
      to.push_back(reader.get_int64());
    } else if (reader.tag_and_type() == key(tag, kText)) {
      for (const std::int64_t value : reader.get_packed_int64()) {
        to.push_back(value);
        limit(to, most, "integers");
      }
    } else {
      return false;
    }
    limit(to, most, "integers");
    return true;
  }

  bool add_floats(pbf_reader& reader, int tag, std::vector<float>& to, std::size_t most) const {
    if (reader.tag_and_type() == key(tag, kFixed)) {
      to.push_back(reader.get_float());
    } else if (reader.tag_and_type() == key(tag, kText)) {
      for (const float value : reader.get_packed_float()) to.push_back(value);
    } else {
      return false;
    }
    limit(to, most, "floats");
    return true;
  }

  Port port(pbf_reader reader) const {
    Port result;
    while (reader.next()) {
      if (reader.tag_and_type() == key(field::port::kName, kText))
        result.name = text(reader);
      else if (reader.tag_and_type() == key(field::port::kType, kText))
        type(reader.get_message(), result);
      else
        reader.skip();
    }
    return result;
  }

  void type(pbf_reader reader, Port& to) const {
    while (reader.next(field::port::kTensorType, kText)) {
      pbf_reader of_tensor = reader.get_message();
      while (of_tensor.next()) {
        if (of_tensor.tag_and_type() == key(field::port::kElementType, kNumber)) {
          to.type = static_cast<ElementType>(of_tensor.get_enum());
          continue;
        }
        if (of_tensor.tag_and_type() != key(field::port::kShape, kText)) {
          of_tensor.skip();
          continue;
        }
        pbf_reader shape = of_tensor.get_message();
        while (shape.next(field::port::kDim, kText)) {
          to.dims.push_back(length(shape.get_message()));
          limit(to.dims, kMostDims, "dimensions");
        }
      }
    }
  }

  static std::int64_t length(pbf_reader dim) {
    std::int64_t result = -1;
    while (dim.next(field::port::kLength, kNumber)) result = dim.get_int64();
    return result < 1 ? -1 : result;
  }

  Tensor tensor(pbf_reader reader) const {
    Tensor result;
    Payload payload;
    while (reader.next()) {
      if (reader.tag_and_type() == key(field::tensor::kName, kText))
        result.name = text(reader);
      else if (!add_integers(reader, field::tensor::kDims, result.dims, kMostDims) &&
               !add_payload(reader, payload))
        reader.skip();
    }
    finish(result, payload, where_);
    return result;
  }

  bool add_payload(pbf_reader& reader, Payload& to) const {
    switch (reader.tag_and_type()) {
      case key(field::tensor::kType, kNumber):
        to.type = reader.get_int64();
        return true;
      case key(field::tensor::kRaw, kText):
        to.raw = bytes_of(reader.get_view());
        to.has_raw = true;
        return true;
      case key(field::tensor::kDoubles, kText):
        to.doubles = bytes_of(reader.get_view());
        to.has_doubles = true;
        return true;
      case key(field::tensor::kExternal, kText):
        entry(reader.get_message(), to.external);
        return true;
      case key(field::tensor::kLocation, kNumber):
        to.is_external = reader.get_enum() == field::tensor::kIsExternal;
        return true;
      default:
        return add_floats(reader, field::tensor::kFloats, to.floats, kMostElements) ||
               add_integers(reader, field::tensor::kInt64s, to.integers, kMostElements) ||
               add_integers(reader, field::tensor::kInt32s, to.integers, kMostElements);
    }
  }

  void entry(pbf_reader reader, External& to) const {
    std::string name;
    std::string value;
    while (reader.next()) {
      if (reader.tag_and_type() == key(field::entry::kKey, kText))
        name = text(reader);
      else if (reader.tag_and_type() == key(field::entry::kValue, kText))
        value = text(reader);
      else
        reader.skip();
    }
    if (name == "location") to.location = value;
    if (name == "offset") to.offset = number(name, value);
    if (name == "length") to.bytes = number(name, value);
  }

  std::uint64_t number(const std::string& name, const std::string& value) const {
    std::uint64_t result = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
    if (error != std::errc() || end != value.data() + value.size())
      refuse(fmt::format("external data's {} \"{}\" is no number", name, printable(value, 60)));
    return result;
  }

  std::string_view where_;
};

}  // namespace

Model decode_model(std::span<const std::byte> bytes, std::string_view where) {
  const Decoder decoder(where);
  if (bytes.size() > kMostModelBytes)
    decoder.refuse(fmt::format("{} bytes long, the limit is {}", bytes.size(), kMostModelBytes));
  try {
    return decoder.model(pbf_reader(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  } catch (const protozero::exception& error) {
    decoder.refuse(fmt::format("is no ONNX model, or not all of one: {}", error.what()));
  }
}

}  // namespace coxswain::onnx
