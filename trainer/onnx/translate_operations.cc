#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "trainer/contract/printable.h"
#include "trainer/onnx/translator.h"

namespace coxswain::onnx {

namespace {

constexpr std::size_t kMostOfName = 200;

NodeAttributes of_norm(const Model& model, const Node& node) {
  return NodeAttributes(model, node, {"epsilon", "momentum", "training_mode", "spatial"});
}

}  // namespace

const std::map<std::string_view, Translator::Rule>& Translator::rules() {
  static const std::map<std::string_view, Rule> kRules{
      {"Conv", &Translator::conv},
      {"BatchNormalization", &Translator::batch_norm},
      {"Relu", &Translator::relu},
      {"Tanh", &Translator::tanh},
      {"Gelu", &Translator::gelu},
      {"Sigmoid", &Translator::sigmoid},
      {"HardSigmoid", &Translator::hard_sigmoid},
      {"HardSwish", &Translator::hard_swish},
      {"Clip", &Translator::clip},
      {"Concat", &Translator::concat},
      {"MaxPool", &Translator::max_pool},
      {"AveragePool", &Translator::average_pool},
      {"GlobalAveragePool", &Translator::global_average_pool},
      {"GlobalMaxPool", &Translator::global_max_pool},
      {"ReduceMean", &Translator::reduce},
      {"ReduceMax", &Translator::reduce},
      {"Add", &Translator::sum},
      {"Mul", &Translator::multiply},
      {"Div", &Translator::divide},
      {"Erf", &Translator::erf},
      {"Gemm", &Translator::gemm},
      {"MatMul", &Translator::matmul},
      {"Flatten", &Translator::flatten},
      {"Reshape", &Translator::reshape},
      {"Transpose", &Translator::transpose},
      {"Pad", &Translator::pad},
      {"Slice", &Translator::slice},
      {"Squeeze", &Translator::squeeze},
      {"Unsqueeze", &Translator::unsqueeze},
      {"Shape", &Translator::shape},
      {"Dropout", &Translator::dropout},
      {"Identity", &Translator::identity},
      {"Softmax", &Translator::softmax},
      {"LogSoftmax", &Translator::softmax},
  };
  return kRules;
}

void Translator::batch_norm(const Node& node) {
  const NodeAttributes attributes = of_norm(model_, node);
  if (attributes.integer("spatial", 1) != 1) refuse(model_, node, "its spatial must be 1");
  const Value x = columns(node, value(node, 0));
  constexpr std::array<std::string_view, 4> kEnds{".weight", ".bias", ".running_mean",
                                                  ".running_var"};
  for (std::size_t i = 0; i < kEnds.size(); ++i) weight(node, i + 1, 1);
  const std::string name = weighted_name(node, "bn", {kEnds[0], kEnds[1], kEnds[2], kEnds[3]});
  const int made = builder_.batch_norm(x.node, name, attributes.real("epsilon", 1e-5F));
  give(node, {place(node, made), x.flat});
  for (std::size_t i = 0; i < kEnds.size(); ++i) take(node, i + 1, name + std::string(kEnds[i]));
}

std::optional<float> norm_momentum(const Model& model) {
  std::optional<float> momentum;
  for (const Node& node : model.nodes) {
    if (node.op != "BatchNormalization") continue;
    const float own = of_norm(model, node).real("momentum", 0.9F);
    if (!(own >= 0 && own <= 1))
      refuse(model, node, fmt::format("its momentum must be within 0 and 1, not {}", own));
    if (momentum && own != *momentum)
      refuse(model, node,
             fmt::format("its momentum is {}, and that of those before {}: one for all is known "
                         "here",
                         own, *momentum));
    momentum = own;
  }
  return momentum;
}

// An attribute in older opsets, an input in newer ones.
std::vector<std::int64_t> Translator::axes_of(const Node& node,
                                              const NodeAttributes& attributes) const {
  constexpr std::int64_t kDims = 4;
  std::vector<std::int64_t> axes = attributes.integers("axes", {});
  if (has_input(node, 1)) axes = constants_.integers(node.inputs[1]).value_or(axes);
  for (std::int64_t& axis : axes) axis += axis < 0 ? kDims : 0;
  std::ranges::sort(axes);
  return axes;
}

std::vector<std::int64_t> Translator::rows_and_columns(Value image) {
  if (image.last) return {1, 2};
  return {2, 3};
}

void Translator::reduce(const Node& node) {
  const NodeAttributes attributes(model_, node, {"axes", "keepdims", "noop_with_empty_axes"});
  Value x = of_any_order(node, 0);
  if (x.flat || axes_of(node, attributes) != rows_and_columns(x))
    refuse(model_, node, "its axes must be rows and columns");
  x.node = over_rows_and_columns(node, x, node.op == "ReduceMax");
  x.flat = attributes.integer("keepdims", 1) == 0;
  x.last = x.last && !x.flat;
  give(node, x);
}

// The convolution or dense layer whose output this node alone reads, beside a constant.
graph::Node* Translator::layer_alone(const Node& node, std::size_t constant) {
  graph::Node& layer = builder_.node(value(node, 1 - constant).node);
  const bool is_layer = layer.op == graph::Op::kConv2d || layer.op == graph::Op::kDense;
  return is_layer && readers_[input_name(node, 1 - constant)] == 1 ? &layer : nullptr;
}

// A constant with a number for each channel of the value beside it.
const Tensor* Translator::of_each_channel(const Node& node, std::size_t constant) {
  const Tensor* tensor = constants_.find(input_name(node, constant));
  if (tensor == nullptr || !is_float(tensor->type)) return nullptr;
  const Value x = value(node, 1 - constant);
  const std::int64_t channels = x.flat ? shape_of(x).per_sample() : shape_of(x).c;
  const std::size_t columns = x.flat ? 0 : 2;  // of one element each
  const auto& dims = tensor->dims;
  const bool fits = dims.size() > columns && dims[dims.size() - 1 - columns] == channels &&
                    elements_of(dims) == static_cast<std::uint64_t>(channels);
  return fits ? tensor : nullptr;
}

// A constant that is added to what a layer gives is its bias, or part of it.
bool Translator::add_bias(const Node& node) {
  const std::size_t constant = is_value(node, 0) ? 1 : 0;
  graph::Node* layer = layer_alone(node, constant);
  const Tensor* bias = layer == nullptr ? nullptr : of_each_channel(node, constant);
  if (bias == nullptr) return false;
  if (layer->bias) {
    Source& own = *std::ranges::find(sources_, layer->name + ".bias", &Source::parameter);
    if (own.added != nullptr) return false;
    own.added = bias;
  } else {
    layer->bias = true;
    take_source(node, {layer->name + ".bias", bias});
  }
  give(node, value(node, 1 - constant));
  return true;
}

// One that it is multiplied by, as a norm after it becomes, is part of its weights.
bool Translator::scale_layer(const Node& node, std::size_t constant) {
  const graph::Node* layer = layer_alone(node, constant);
  const Tensor* factors = layer == nullptr ? nullptr : of_each_channel(node, constant);
  if (factors == nullptr) return false;
  const auto is_own = [&](const Source& source) {
    return source.parameter == layer->name + ".weight" || source.parameter == layer->name + ".bias";
  };
  if (std::ranges::any_of(sources_, [&](const Source& source) {
        return is_own(source) && (source.factors != nullptr || source.added != nullptr);
      }))
    return false;
  for (Source& source : sources_)
    if (is_own(source)) source.factors = factors;
  give(node, value(node, 1 - constant));
  return true;
}

// Of anything else, a layer of its own.
bool Translator::scale_channels(const Node& node, std::size_t constant) {
  const Tensor* factors = of_each_channel(node, constant);
  if (factors == nullptr) return false;
  const Value x = columns(node, value(node, 1 - constant));
  const std::int64_t channels = shape_of(x).c;
  const std::string name = unweighted_name(node, "scale");
  const int made =
      builder_.conv(x.node, name, channels, 1, 1, 0, false, kInit, static_cast<int>(channels));
  give(node, {place(node, made), x.flat});
  take_source(node, {.parameter = name + ".weight", .tensor = factors, .of_each_channel = true});
  return true;
}

void Translator::sum(const Node& node) {
  const NodeAttributes attributes(model_, node, {});
  const bool both = is_value(node, 0) && is_value(node, 1);
  if (!both) {
    const std::size_t of_value = is_value(node, 0) ? 0 : 1;
    Value x = any_value(node, of_value);
    const auto added = constants_.scalar(input_name(node, 1 - of_value));
    if (x.form == Form::kErf && added == 1.0) {
      x.form = Form::kOnePlusErf;
      return give(node, x);
    }
    if (x.form == Form::kWhole && added == 3.0) {
      x = value(node, of_value);
      return give(node, {x.node, x.flat, Form::kPlusThree});
    }
    if (add_bias(node)) return;
    refuse(model_, node, "adds a constant that is no bias of the layer before it");
  }
  Value a = value(node, 0);
  Value b = value(node, 1);
  if (a.flat != b.flat) refuse(model_, node, "adds images and what has no rows and columns");
  if (shape_of(a) != shape_of(b)) {
    a = columns(node, a);
    b = columns(node, b);
  }
  give(node, {place(node, builder_.add(a.node, b.node)), a.flat});
}

void Translator::dense(const Node& node, Value x, bool transposed, bool bias) {
  const Tensor& weights = weight(node, 1, 2);
  if (!x.flat)
    refuse(model_, node,
           fmt::format("reads {}, which has rows and columns: flatten it before",
                       printable(node.inputs[0], kMostOfName)));
  const std::string name = weighted_name(node, "fc", {".weight", ".bias"});
  const int made = builder_.dense(x.node, name, weights.dims[transposed ? 1 : 0], bias, kInit);
  give(node, {place(node, made), true});
  Source source{name + ".weight", &weights, transposed};
  if (x.last) source.channels_last = shape_of(x);
  take_source(node, std::move(source));
  if (!bias) return;
  const Tensor* values = constants_.find(node.inputs[2]);
  if (values == nullptr || !is_float(values->type))
    refuse(model_, node, "its third input must be constant floats");
  take(node, 2, name + ".bias");
}

void Translator::gemm(const Node& node) {
  const NodeAttributes attributes(model_, node, {"alpha", "beta", "transA", "transB"});
  const bool bias = has_input(node, 2);
  if (attributes.real("alpha", 1) != 1 || (bias && attributes.real("beta", 1) != 1))
    refuse(model_, node, "its alpha and beta must be 1");
  if (attributes.integer("transA", 0) != 0) refuse(model_, node, "its transA must be 0");
  dense(node, of_any_order(node, 0), attributes.integer("transB", 0) == 0, bias);
}

void Translator::matmul(const Node& node) {
  const NodeAttributes attributes(model_, node, {});
  dense(node, of_any_order(node, 0), true, false);
}

void Translator::flatten(const Node& node) {
  const NodeAttributes attributes(model_, node, {"axis"});
  Value x = of_any_order(node, 0);
  const std::int64_t axis = attributes.integer("axis", 1);
  if (axis != 1 && axis != (x.flat ? -1 : -3)) refuse(model_, node, "its axis must be 1");
  x.flat = true;
  give(node, x);
}

// To (N, all of it), or what leaves it as it is.
void Translator::reshape(const Node& node) {
  const NodeAttributes attributes(model_, node, {"allowzero"});
  Value x = of_any_order(node, 0);
  const auto to = constants_.integers(input_name(node, 1));
  if (!to) refuse(model_, node, "its shape must be constant, but for the batch");
  const tensor::Shape& shape = shape_of(x);
  const auto is = [&](std::size_t i, std::int64_t length) {
    return (*to)[i] == length || (*to)[i] == -1 || ((*to)[i] == 0 && i > 0);
  };
  const bool keeps_batch =
      !to->empty() && (to->front() == -1 || to->front() == 0 || to->front() == batch_);
  const bool is_flat = to->size() == 2 && (!is_own_input_ || is(1, shape.per_sample()));
  const bool is_grey = x.last && !x.flat && shape.c == 1;  // the same with its channel first
  const bool is_image = to->size() == 4 && (!x.last || is_grey) &&
                        is(1, x.flat ? shape.per_sample() : shape.c) &&
                        is(2, x.flat ? 1 : shape.h) && is(3, x.flat ? 1 : shape.w);
  const bool has_all = to->size() == 2 && (*to)[1] == shape.per_sample();  // so N is the batch's
  if ((!keeps_batch && !has_all) || (!is_flat && !is_image))
    refuse(model_, node,
           fmt::format("makes ({}) of {}: known is what flattens each image alone",
                       fmt::join(*to, ", "), tensor::to_text(shape)));
  if (is_image && x.flat) x = columns(node, x);
  if (is_image) x.last = false;
  x.flat = is_flat;
  give(node, x);
}

void Translator::transpose(const Node& node) {
  const NodeAttributes attributes(model_, node, {"perm"});
  Value x = any_value(node, 0);
  if (x.form != Form::kPadded) x = of_any_order(node, 0);
  if (x.flat || attributes.integers("perm", {}) != (x.last ? kToTheFront : kToTheEnd))
    refuse(model_, node,
           "known where it brings the channels of images to the end, or back to the front");
  x.last = !x.last;
  give(node, x);
}

void Translator::squeeze(const Node& node) {
  const NodeAttributes attributes(model_, node, {"axes"});
  Value x = of_any_order(node, 0);
  const tensor::Shape& shape = shape_of(x);
  if (x.flat || axes_of(node, attributes) != rows_and_columns(x) || shape.h * shape.w != 1)
    refuse(model_, node, "its axes must be rows and columns, of one each");
  x.flat = true;
  give(node, x);
}

// In one node, or in two.
void Translator::unsqueeze(const Node& node) {
  const NodeAttributes attributes(model_, node, {"axes"});
  const std::vector<std::int64_t> axes = axes_of(node, attributes);
  const Value given = any_value(node, 0);
  Value x = given.form == Form::kOfRows ? given : value(node, 0);
  if (x.flat && x.form == Form::kWhole && axes == std::vector<std::int64_t>{2})
    return give(node, {x.node, true, Form::kOfRows});
  if (!x.flat || axes != (x.form == Form::kOfRows ? std::vector<std::int64_t>{3}
                                                  : std::vector<std::int64_t>{2, 3}))
    refuse(model_, node, "its axes must be rows and columns, 2 and 3");
  give(node, {columns(node, x).node});
}

// All of each axis.
void Translator::slice(const Node& node) {
  const NodeAttributes attributes(model_, node, {});
  const auto all = [&](std::size_t index, const auto& is_all) {
    const auto list = has_input(node, index) ? constants_.integers(node.inputs[index])
                                             : std::optional(std::vector<std::int64_t>{});
    return list && std::ranges::all_of(*list, is_all);
  };
  constexpr std::int64_t kEnd = std::numeric_limits<std::int32_t>::max();
  const bool is_whole = all(1, [](std::int64_t begin) { return begin == 0; }) &&
                        all(2, [](std::int64_t end) { return end >= kEnd; }) &&
                        all(4, [](std::int64_t step) { return step == 1; });
  if (!is_whole) refuse(model_, node, "takes a part of images, which is not known");
  give(node, any_value(node, 0));
}

void Translator::shape(const Node& node) {
  const Value x = of_any_order(node, 0);
  const tensor::Shape& of = shape_of(x);
  std::vector<std::int64_t> dims{batch_, of.per_sample()};
  if (!x.flat) dims = {batch_, of.c, of.h, of.w};
  if (!x.flat && x.last) dims = {batch_, of.h, of.w, of.c};
  constants_.add(node.outputs.front(), part_of_shape(model_, node, dims));
}

void Translator::dropout(const Node& node) {
  const NodeAttributes attributes(model_, node, {"ratio", "seed"});
  Value x = of_any_order(node, 0);
  double rate = static_cast<double>(attributes.real("ratio", 0.5F));
  if (has_input(node, 1)) {
    const auto given = constants_.scalar(node.inputs[1]);
    if (!given) refuse(model_, node, "its ratio must be a constant number");
    rate = *given;
  }
  const int made =
      builder_.dropout(x.node, unweighted_name(node, "dropout"), static_cast<float>(rate));
  x.node = place(node, made);
  give(node, x);
}

void Translator::identity(const Node& node) {
  const NodeAttributes attributes(model_, node, {"to", "saturate"});
  give(node, any_value(node, 0));
}

void Translator::softmax(const Node& node) {
  const NodeAttributes attributes(model_, node, {"axis"});
  Value x = columns(node, value(node, 0));
  const std::int64_t axis = attributes.integer("axis", model_.opset < 13 ? 1 : -1);
  if (axis != 1 && !(axis == -1 && x.flat)) refuse(model_, node, "its axis must be 1");
  x.form = Form::kEnd;
  give(node, x);
}

}  // namespace coxswain::onnx
