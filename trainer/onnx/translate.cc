#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trainer/contract/error.h"
#include "trainer/contract/printable.h"
#include "trainer/graph/head.h"
#include "trainer/graph/operations.h"
#include "trainer/onnx/translator.h"

// The frame of a translation: names, values and shapes. What each operation becomes is in
// translate_operations.cc.
namespace coxswain::onnx {

namespace {

constexpr std::size_t kMostCharacters = 200;

const Port& image_port(const Model& model) {
  const Port* found = nullptr;
  for (const Port& port : model.inputs) {
    if (std::ranges::find(model.tensors, port.name, &Tensor::name) != model.tensors.end()) continue;
    if (found != nullptr)
      refuse(model, fmt::format("has two inputs, {} and {}: must be one, the images",
                                printable(found->name, kMostCharacters),
                                printable(port.name, kMostCharacters)));
    found = &port;
  }
  if (found == nullptr) refuse(model, "has no input");
  if (!is_float(found->type))
    refuse(model,
           fmt::format("its input {} is of TensorProto.DataType {}: export it for images in "
                       "float32, as they are after data.augment",
                       printable(found->name, kMostCharacters), static_cast<int>(found->type)));
  return *found;
}

// As Keras has them: where a Transpose brings them to the front, or where they are few and rows are
// more.
bool has_channels_last(const Model& model) {
  constexpr std::int64_t kMostColours = 4;
  const Port& port = image_port(model);
  if (port.dims.size() != 4) return false;
  if (port.dims[3] >= 1 && port.dims[3] <= kMostColours && port.dims[1] > kMostColours) return true;
  return std::ranges::any_of(model.nodes, [&](const Node& node) {
    const bool reads = std::ranges::count(node.inputs, port.name) > 0;
    return reads && node.op == "Transpose" &&
           NodeAttributes(model, node, {"perm"}).integers("perm", {}) == kToTheFront;
  });
}

tensor::Shape shape_of_port(const Model& model, bool channels_last) {
  const Port& port = image_port(model);
  const auto is_fixed = [&](std::size_t i) { return port.dims[i] > 0; };
  if (port.dims.size() == 2 && is_fixed(1)) return {1, port.dims[1], 1, 1};
  if (port.dims.size() != 4 || !is_fixed(1) || !is_fixed(2) || !is_fixed(3))
    refuse(model, fmt::format("its input {} must be (N, C, H, W) of fixed C, H and W",
                              printable(port.name, kMostCharacters)));
  if (channels_last) return {1, port.dims[3], port.dims[1], port.dims[2]};
  return {1, port.dims[1], port.dims[2], port.dims[3]};
}

// "/layer1/layer1.0/conv1/Conv" -> "layer1.0.conv1": the module that TorchScript's exporter was in.
std::string module_of(std::string_view path) {
  if (!path.starts_with('/')) return "";
  std::string name;
  std::string_view last;
  path.remove_prefix(1);
  for (std::size_t end = path.find('/'); end != path.npos; end = path.find('/')) {
    const std::string_view part = path.substr(0, end);
    path.remove_prefix(end + 1);
    const bool is_longer = !last.empty() && part.starts_with(fmt::format("{}.", last));
    if (is_longer) name.resize(name.size() - last.size());
    if (!is_longer && !name.empty()) name += '.';
    name += part;
    last = part;
  }
  return name;
}

std::string plain(std::string name) {
  constexpr std::size_t kMost = 120;
  if (name.size() > kMost) name.resize(kMost);
  for (char& c : name)
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
          c == '.' || c == '-'))
      c = '_';
  return name;
}

}  // namespace

Translator::Translator(const Model& model, std::optional<tensor::Shape> input)
    : model_(model),
      constants_(model),
      has_channels_last_(has_channels_last(model)),
      builder_(input ? *input : shape_of_port(model, has_channels_last_)),
      is_own_input_(!input) {
  constexpr std::int64_t kOldest = 7;  // earlier ones broadcast by attributes
  if (model.opset < kOldest)
    refuse(model, fmt::format("is of opset {}, {} and later are read: convert it with "
                              "onnx.version_converter.convert_version(model, {})",
                              model.opset, kOldest, kOldest));
  constexpr std::int64_t kNewest = 28;  // later ones may give a known name another meaning
  if (model.opset > kNewest)
    refuse(model, fmt::format("is of opset {}, {} is the newest that is read: export it with "
                              "opset_version={}",
                              model.opset, kNewest, kNewest));
  const Port& port = image_port(model);
  if (!port.dims.empty()) batch_ = port.dims.front();
  values_[port.name] = {
      .node = builder_.input(), .flat = port.dims.size() == 2, .last = has_channels_last_};
  for (const Node& node : model.nodes)
    for (const std::string& name : node.inputs) ++readers_[name];
}

void Translator::add(const Node& node) {
  if (!node.domain.empty() && node.domain != "ai.onnx")
    refuse(model_, node,
           fmt::format("is of {}, whose operations are not known",
                       printable(node.domain, kMostCharacters)));
  if (constants_.fold(node)) return;
  const auto rule = rules().find(node.op);
  if (rule == rules().end()) refuse(model_, node, "an operation that is not known");
  if (node.outputs.empty()) refuse(model_, node, "gives nothing");
  (this->*rule->second)(node);
}

Translation Translator::finish(std::optional<std::int64_t> classes, float label_smoothing) {
  if (model_.outputs.size() != 1)
    refuse(model_,
           fmt::format("has {} outputs: must be one, a value a class", model_.outputs.size()));
  const std::string& name = model_.outputs.front().name;
  const auto found = values_.find(name);
  const bool is_whole = found != values_.end() &&
                        (found->second.form == Form::kWhole || found->second.form == Form::kEnd);
  if (!is_whole)
    refuse(model_, fmt::format("its output {} is given by no node, or is a part of an operation",
                               printable(name, kMostCharacters)));
  Value logits = found->second;
  if (logits.last && shape_of(logits).c != shape_of(logits).per_sample())
    refuse(model_, fmt::format("its output {} has its channels last: must be one value a class",
                               printable(name, kMostCharacters)));
  const std::int64_t own = shape_of(logits).per_sample();
  if (shape_of(logits).c != own && !logits.flat)
    refuse(model_,
           fmt::format("its output {} is {}: must be one value a class",
                       printable(name, kMostCharacters), tensor::to_text(shape_of(logits))));
  if (shape_of(logits).c != own) {
    logits.node = builder_.flatten(logits.node);
    builder_.node(logits.node).shape = {1, own, 1, 1};
  }
  graph::Graph graph = builder_.finish(logits.node, label_smoothing);
  const std::vector<int> readers = graph::reader_counts(graph);
  for (std::size_t i = 0; i + 1 < readers.size(); ++i)
    if (readers[i] == 0)
      refuse(model_,
             fmt::format("layer {}: the output does not depend on it", graph.nodes[i].name));
  if (classes && *classes != own) {
    const auto head = graph::head_of(graph);
    if (!head || graph.nodes[static_cast<std::size_t>(*head)].channels != own)
      refuse(model_, fmt::format("gives {} values where {} classes need {}, and has no last layer "
                                 "that could give as many",
                                 own, *classes, *classes));
    graph.nodes[static_cast<std::size_t>(*head)].channels = *classes;
  }
  return {std::move(graph), std::move(sources_)};
}

const std::string& Translator::input_name(const Node& node, std::size_t index) const {
  if (!has_input(node, index))
    refuse(model_, node, fmt::format("has {} inputs, and needs more", node.inputs.size()));
  return node.inputs[index];
}

bool Translator::has_input(const Node& node, std::size_t index) const {
  return index < node.inputs.size() && !node.inputs[index].empty();
}

bool Translator::is_value(const Node& node, std::size_t index) const {
  return values_.contains(input_name(node, index));
}

Translator::Value Translator::any_value(const Node& node, std::size_t index) const {
  const std::string& name = input_name(node, index);
  const auto found = values_.find(name);
  if (found != values_.end()) return found->second;
  const std::string shown = printable(name, kMostCharacters);
  if (constants_.find(name) != nullptr)
    refuse(model_, node, fmt::format("reads {}, which is a constant, as images", shown));
  refuse(model_, node, fmt::format("reads {}, which no node before it gives", shown));
}

Translator::Value Translator::value(const Node& node, std::size_t index) {
  Value found = of_any_order(node, index);
  found.last = is_last(found);
  if (found.last)
    refuse(model_, node,
           fmt::format("reads {}, whose channels are last: known in Transpose, Reshape, Flatten, "
                       "Dropout, MatMul and Gemm",
                       printable(node.inputs[index], kMostCharacters)));
  return found;
}

Translator::Value Translator::of_any_order(const Node& node, std::size_t index) {
  const Value found = any_value(node, index);
  if (found.form == Form::kWhole) return found;
  if (found.form == Form::kSigmoid)
    return values_[node.inputs[index]] = {place(node, builder_.sigmoid(found.node)), found.flat};
  if (found.form == Form::kHardSigmoid)
    return values_[node.inputs[index]] = {place(node, builder_.hard_sigmoid(found.node)),
                                          found.flat};
  const std::string shown = printable(node.inputs[index], kMostCharacters);
  if (found.form == Form::kEnd)
    refuse(model_, node, fmt::format("reads {}, a softmax: known at the end alone", shown));
  refuse(model_, node,
         fmt::format("reads {}, which is known as a part of another operation alone", shown));
}

// Where it makes a difference.
bool Translator::is_last(Value value) {
  const tensor::Shape& shape = shape_of(value);
  return value.last && shape.h * shape.w != 1 && !(value.flat && shape.c == 1);
}

Translator::Value Translator::image(const Node& node, std::size_t index) {
  const Value found = value(node, index);
  if (found.flat)
    refuse(model_, node,
           fmt::format("reads {}, which has no rows and columns",
                       printable(node.inputs[index], kMostCharacters)));
  return found;
}

Translator::Value Translator::columns(const Node& node, Value value) {
  const tensor::Shape& shape = shape_of(value);
  if (!value.flat || shape.c == shape.per_sample()) return value;
  value.node = place(node, builder_.flatten(value.node));
  return value;
}

const Tensor& Translator::weight(const Node& node, std::size_t index, std::size_t dims) const {
  const std::string& name = input_name(node, index);
  const Tensor* tensor = constants_.find(name);
  const std::string shown = printable(name, kMostCharacters);
  if (tensor == nullptr)
    refuse(model_, node, fmt::format("reads {}, which must be a constant", shown));
  if (tensor->dims.size() != dims || !is_float(tensor->type) || elements_of(tensor->dims) == 0)
    refuse(model_, node,
           fmt::format("reads {}, which must be floats of {} dimensions", shown, dims));
  return *tensor;
}

// Where an exporter kept them, the names that the parameters had: "features.0.weight".
std::string Translator::weighted_name(const Node& node, std::string_view stem,
                                      std::initializer_list<std::string_view> ends) {
  std::size_t input = 0;
  for (const std::string_view end : ends) {
    ++input;
    if (!has_input(node, input) || !node.inputs[input].ends_with(end)) continue;
    const std::string& name = node.inputs[input];
    std::string own = plain(name.substr(0, name.size() - end.size()));
    if (!own.empty() && names_.insert(own).second) return own;
  }
  const std::string module = plain(module_of(node.name));
  return fresh_name(module.empty() ? std::string(stem) : module);
}

std::string Translator::unweighted_name(const Node& node, std::string_view stem) {
  const std::string name = plain(node.name.starts_with('/') ? module_of(node.name) : node.name);
  return fresh_name(name.empty() ? std::string(stem) : name);
}

// "conv", "conv_2": as `stem` is a name, or none of several nodes of one module.
std::string Translator::fresh_name(std::string name) {
  for (;;) {
    const int number = ++used_[name];
    std::string own = number == 1 ? name : fmt::format("{}_{}", name, number);
    if (names_.insert(own).second) return own;
  }
}

void Translator::take(const Node& node, std::size_t input, std::string parameter) {
  take_source(node, {std::move(parameter), constants_.find(node.inputs[input])});
}

// Exporters make one tensor of several small ones that are alike by chance, as those that normalise
// are before training.
void Translator::take_source(const Node& node, Source source) {
  const bool is_new = taken_.insert(source.tensor).second;
  if (!is_new && source.tensor->dims.size() > 1)
    refuse(model_, node,
           fmt::format("shares its weights {} with another node, which is not known",
                       printable(source.tensor->name, kMostCharacters)));
  sources_.push_back(std::move(source));
}

int Translator::place(const Node& node, int built) {
  graph::Node& made = builder_.node(built);
  try {
    made.shape = graph::operation(made.op).shape(builder_.graph(), made);
  } catch (const Error& error) {
    const std::string_view said = error.what();
    constexpr std::string_view kPrefix = "[model] ";
    refuse(model_, node, std::string(said.substr(said.starts_with(kPrefix) ? kPrefix.size() : 0)));
  }
  return built;
}

void Translator::give(const Node& node, Value value) {
  const std::string& name = node.outputs.front();
  if (!values_.emplace(name, value).second || constants_.find(name) != nullptr)
    refuse(model_, node,
           fmt::format("gives {}, which is there already", printable(name, kMostCharacters)));
}

Translation translate(const Model& model, std::optional<tensor::Shape> input,
                      std::optional<std::int64_t> classes, float label_smoothing) {
  Translator translator(model, input);
  for (const Node& node : model.nodes) translator.add(node);
  return translator.finish(classes, label_smoothing);
}

}  // namespace coxswain::onnx
