#include <protozero/pbf_writer.hpp>

#include "trainer/onnx/fields.h"
#include "trainer/onnx/format.h"

namespace coxswain::onnx {

namespace {

using protozero::pbf_writer;

// Of 2022, with opset 17: read by every runtime since, and it has all that is written here.
constexpr std::int64_t kIrVersion = 8;

void write(pbf_writer writer, const Tensor& tensor) {
  for (const std::int64_t dim : tensor.dims) writer.add_int64(field::tensor::kDims, dim);
  const bool is_floats = is_float(tensor.type);
  writer.add_int32(
      field::tensor::kType,
      static_cast<std::int32_t>(is_floats ? ElementType::kFloat : ElementType::kInt64));
  writer.add_string(field::tensor::kName, tensor.name);
  if (tensor.external) {
    writer.add_enum(field::tensor::kLocation, field::tensor::kIsExternal);
    return;
  }
  const void* values = is_floats ? static_cast<const void*>(tensor.floats.data())
                                 : static_cast<const void*>(tensor.integers.data());
  const std::size_t bytes = is_floats ? tensor.floats.size() * sizeof(float)
                                      : tensor.integers.size() * sizeof(std::int64_t);
  writer.add_bytes(field::tensor::kRaw, static_cast<const char*>(values), bytes);
}

// Writes an attribute's value, by what it holds.
struct ValueWriter {
  pbf_writer& to;

  void of_type(field::attribute::Type type) const { to.add_enum(field::attribute::kType, type); }
  void operator()(std::monostate) const {}
  void operator()(std::int64_t value) const {
    to.add_int64(field::attribute::kInt, value);
    of_type(field::attribute::kIsInt);
  }
  void operator()(float value) const {
    to.add_float(field::attribute::kFloat, value);
    of_type(field::attribute::kIsFloat);
  }
  void operator()(const std::string& value) const {
    to.add_bytes(field::attribute::kString, value);
    of_type(field::attribute::kIsString);
  }
  void operator()(const std::vector<std::int64_t>& values) const {
    for (const std::int64_t value : values) to.add_int64(field::attribute::kInts, value);
    of_type(field::attribute::kIsInts);
  }
  void operator()(const std::vector<float>& values) const {
    for (const float value : values) to.add_float(field::attribute::kFloats, value);
    of_type(field::attribute::kIsFloats);
  }
  void operator()(const Tensor& value) const {
    write(pbf_writer(to, field::attribute::kTensor), value);
    of_type(field::attribute::kIsTensor);
  }
};

void write(pbf_writer writer, const Node& node) {
  for (const std::string& input : node.inputs) writer.add_string(field::node::kInput, input);
  for (const std::string& output : node.outputs) writer.add_string(field::node::kOutput, output);
  writer.add_string(field::node::kName, node.name);
  writer.add_string(field::node::kOp, node.op);
  for (const Attribute& attribute : node.attributes) {
    pbf_writer to(writer, field::node::kAttribute);
    to.add_string(field::attribute::kName, attribute.name);
    std::visit(ValueWriter{to}, attribute.value);
  }
  if (!node.domain.empty()) writer.add_string(field::node::kDomain, node.domain);
}

void write(pbf_writer writer, const Port& port) {
  writer.add_string(field::port::kName, port.name);
  pbf_writer type(writer, field::port::kType);
  pbf_writer of_tensor(type, field::port::kTensorType);
  of_tensor.add_int32(field::port::kElementType, static_cast<std::int32_t>(port.type));
  pbf_writer shape(of_tensor, field::port::kShape);
  for (const std::int64_t dim : port.dims) {
    pbf_writer to(shape, field::port::kDim);
    if (dim < 0)
      to.add_string(field::port::kSymbol, "N");
    else
      to.add_int64(field::port::kLength, dim);
  }
}

}  // namespace

std::string encode(const Model& model) {
  std::string bytes;
  pbf_writer writer(bytes);
  writer.add_int64(field::model::kIrVersion, kIrVersion);
  writer.add_string(field::model::kProducer, "coxswain");
  {
    pbf_writer graph(writer, field::model::kGraph);
    for (const Node& node : model.nodes) write(pbf_writer(graph, field::graph::kNode), node);
    graph.add_string(field::graph::kName, "network");
    for (const Tensor& tensor : model.tensors)
      write(pbf_writer(graph, field::graph::kInitializer), tensor);
    for (const Port& port : model.inputs) write(pbf_writer(graph, field::graph::kInput), port);
    for (const Port& port : model.outputs) write(pbf_writer(graph, field::graph::kOutput), port);
  }
  pbf_writer opset(writer, field::model::kOpset);
  opset.add_string(field::opset::kDomain, "");
  opset.add_int64(field::opset::kVersion, model.opset);
  return bytes;
}

}  // namespace coxswain::onnx
