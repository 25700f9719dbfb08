#include "trainer/onnx/constants.h"

#include <algorithm>

#include "trainer/onnx/node_attributes.h"

namespace coxswain::onnx {

namespace {

constexpr std::size_t kMostInShape = 64;

Tensor integer_list(std::vector<std::int64_t> values) {
  return {.dims = {static_cast<std::int64_t>(values.size())},
          .type = ElementType::kInt64,
          .integers = std::move(values)};
}

// [begin, end) of a list; below 0: counted from its end.
Tensor part_of(const std::vector<std::int64_t>& list, std::int64_t begin, std::int64_t end) {
  const auto size = static_cast<std::int64_t>(list.size());
  const auto place = [&](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size);
  };
  const std::int64_t first = place(begin);
  return integer_list({list.begin() + first, list.begin() + std::max(first, place(end))});
}

bool is_small_integers(const Tensor& tensor) {
  return !is_float(tensor.type) && !tensor.external && tensor.integers.size() <= kMostInShape;
}

}  // namespace

Tensor part_of_shape(const Model& model, const Node& node, const std::vector<std::int64_t>& dims) {
  const NodeAttributes attributes(model, node, {"start", "end"});
  const auto size = static_cast<std::int64_t>(dims.size());
  return part_of(dims, attributes.integer("start", 0), attributes.integer("end", size));
}

Constants::Constants(const Model& model) : model_(model) {
  for (const Tensor& tensor : model.tensors)
    if (!known_.emplace(tensor.name, &tensor).second)
      refuse(model, "two tensors have the name " + tensor.name);
}

const Tensor* Constants::find(const std::string& value) const {
  const auto found = known_.find(value);
  return found == known_.end() ? nullptr : found->second;
}

std::optional<double> Constants::scalar(const std::string& value) const {
  const Tensor* tensor = find(value);
  if (tensor == nullptr || tensor->external || elements_of(tensor->dims) != 1) return std::nullopt;
  return is_float(tensor->type) ? static_cast<double>(tensor->floats.front())
                                : static_cast<double>(tensor->integers.front());
}

std::optional<std::vector<std::int64_t>> Constants::integers(const std::string& value) const {
  const Tensor* tensor = find(value);
  if (tensor == nullptr || !is_small_integers(*tensor)) return std::nullopt;
  return tensor->integers;
}

void Constants::add(const std::string& value, Tensor tensor) {
  made_.push_back(std::move(tensor));
  known_[value] = &made_.back();
}

bool Constants::is_known(const Node& node) const {
  return std::ranges::all_of(node.inputs, [&](const std::string& input) {
    return input.empty() || find(input) != nullptr;
  });
}

bool Constants::fold(const Node& node) {
  if (node.outputs.size() != 1) return false;
  const bool is_cast = node.op == "Identity" || node.op == "Cast" || node.op == "CastLike";
  if (!is_known(node) && !(node.op == "CastLike" && !node.inputs.empty())) return false;
  const std::string& output = node.outputs.front();
  if (node.op == "Constant") {
    add_constant(node);
    return true;
  }
  if (node.inputs.empty()) return false;
  if (is_cast) {  // integers are wide, floats are as they are
    const Tensor* tensor = find(node.inputs.front());
    if (tensor != nullptr) known_[output] = tensor;
    return tensor != nullptr;
  }
  std::optional<Tensor> result;
  if (node.op == "Gather") result = gathered(node);
  if (node.op == "Concat") result = joined(node);
  if (node.op == "Slice") result = sliced(node);
  if (node.op == "Unsqueeze" || node.op == "Squeeze" || node.op == "Reshape")
    result = reshaped(node);
  if (node.op == "Transpose") result = transposed(node);
  if (node.op == "Mul" || node.op == "Sub") result = computed(node);
  if (node.op == "ConstantOfShape") result = filled(node);
  if (node.op == "Expand") result = expanded(node);
  if (node.op == "Shape") result = shape(node);
  if (!result) return false;
  add(output, std::move(*result));
  return true;
}

void Constants::add_constant(const Node& node) {
  const std::string& output = node.outputs.front();
  if (node.attributes.size() == 1) {
    const auto& value = node.attributes.front().value;
    if (const auto* tensor = std::get_if<Tensor>(&value)) {
      known_[output] = tensor;
      return;
    }
    if (const auto* number = std::get_if<std::int64_t>(&value))
      return add(output, {.dims = {}, .type = ElementType::kInt64, .integers = {*number}});
    if (const auto* number = std::get_if<float>(&value))
      return add(output, {.dims = {}, .floats = {*number}});
    if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value))
      return add(output, integer_list(*list));
  }
  refuse(model_, node, "its value is of a kind that is not known");
}

// One number, as often as a shape says.
std::optional<Tensor> Constants::expanded(const Node& node) const {
  constexpr std::int64_t kMost = 1 << 16;
  if (node.inputs.size() != 2) return std::nullopt;
  const auto number = scalar(node.inputs[0]);
  const auto to = integers(node.inputs[1]);
  if (!number || !to || to->size() != 1 || to->front() < 1 || to->front() > kMost)
    return std::nullopt;
  const auto count = static_cast<std::size_t>(to->front());
  if (!is_float(find(node.inputs[0])->type))
    return integer_list(std::vector<std::int64_t>(std::min(count, kMostInShape),
                                                  static_cast<std::int64_t>(*number)));
  return Tensor{.dims = *to, .floats = std::vector<float>(count, static_cast<float>(*number))};
}

std::optional<Tensor> Constants::shape(const Node& node) const {
  const Tensor* of = find(node.inputs.front());
  if (of == nullptr) return std::nullopt;
  return part_of_shape(model_, node, of->dims);
}

bool Constants::is_made_of_zeros(const std::string& value) const {
  const Tensor* tensor = find(value);
  const bool is_made =
      std::ranges::any_of(made_, [&](const Tensor& one) { return &one == tensor; });
  return is_made && std::ranges::all_of(tensor->floats, [](float f) { return f == 0; });
}

// One or some lengths of a shape.
std::optional<Tensor> Constants::gathered(const Node& node) const {
  if (node.inputs.size() != 2) return std::nullopt;
  const auto from = integers(node.inputs[0]);
  const auto which = integers(node.inputs[1]);
  if (!from || !which) return std::nullopt;
  Tensor result{.dims = find(node.inputs[1])->dims, .type = ElementType::kInt64};
  for (std::int64_t index : *which) {
    const auto size = static_cast<std::int64_t>(from->size());
    if (index < 0) index += size;
    if (index < 0 || index >= size) return std::nullopt;
    result.integers.push_back((*from)[static_cast<std::size_t>(index)]);
  }
  return result;
}

// The first lengths of a shape, or the last ones; rows in reverse.
std::optional<Tensor> Constants::sliced(const Node& node) const {
  const auto input = [&](std::size_t i) {
    const bool given = i < node.inputs.size() && !node.inputs[i].empty();
    return given ? integers(node.inputs[i]) : std::nullopt;
  };
  const auto from = input(0);
  const auto begins = input(1);
  const auto ends = input(2);
  const std::vector<std::int64_t> first{0};
  const std::vector<std::int64_t> each{1};
  if (!from || !begins || !ends || begins->size() != 1 || ends->size() != 1) return std::nullopt;
  if (input(3).value_or(first) != first) return std::nullopt;
  const auto steps = input(4).value_or(each);
  const auto& dims = find(node.inputs[0])->dims;
  if (dims.size() == 1 && steps == each) return part_of(*from, begins->front(), ends->front());
  const bool all =
      begins->front() == -1 && ends->front() < -static_cast<std::int64_t>(kMostInShape);
  if (dims.size() != 2 || steps != std::vector<std::int64_t>{-1} || !all) return std::nullopt;
  Tensor result{.dims = dims, .type = ElementType::kInt64};
  for (auto end = from->end(); end != from->begin(); end -= dims[1])
    result.integers.insert(result.integers.end(), end - dims[1], end);
  return result;
}

std::optional<Tensor> Constants::joined(const Node& node) const {
  std::vector<std::int64_t> all;
  for (const std::string& input : node.inputs) {
    const auto part = integers(input);
    if (!part || all.size() + part->size() > kMostInShape) return std::nullopt;
    all.insert(all.end(), part->begin(), part->end());
  }
  return integer_list(std::move(all));
}

// A number as a list of one, or the reverse; a list as rows.
std::optional<Tensor> Constants::reshaped(const Node& node) const {
  const auto values = integers(node.inputs[0]);
  if (!values) return std::nullopt;
  const auto to = node.inputs.size() == 2 ? integers(node.inputs[1]) : std::nullopt;
  if (node.op == "Reshape" && to && to->size() == 2) {
    const auto size = static_cast<std::int64_t>(values->size());
    const std::int64_t length = (*to)[1];
    if (length < 1 || size % length != 0 || ((*to)[0] != -1 && (*to)[0] != size / length))
      return std::nullopt;
    return Tensor{
        .dims = {size / length, length}, .type = ElementType::kInt64, .integers = *values};
  }
  if (node.op != "Squeeze") return integer_list(*values);
  if (values->size() != 1) return std::nullopt;
  return Tensor{.dims = {}, .type = ElementType::kInt64, .integers = *values};
}

std::optional<Tensor> Constants::transposed(const Node& node) const {
  const auto values = integers(node.inputs[0]);
  const NodeAttributes attributes(model_, node, {"perm"});
  const std::vector<std::int64_t> swapped{1, 0};
  if (!values || attributes.integers("perm", swapped) != swapped) return std::nullopt;
  const auto& dims = find(node.inputs[0])->dims;
  if (dims.size() != 2) return std::nullopt;
  Tensor result{.dims = {dims[1], dims[0]}, .type = ElementType::kInt64};
  for (std::int64_t column = 0; column < dims[1]; ++column)
    for (std::int64_t row = 0; row < dims[0]; ++row)
      result.integers.push_back((*values)[static_cast<std::size_t>(row * dims[1] + column)]);
  return result;
}

// Of two numbers.
std::optional<Tensor> Constants::computed(const Node& node) const {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  if (node.inputs.size() != 2) return std::nullopt;
  const auto a = integers(node.inputs[0]);
  const auto b = integers(node.inputs[1]);
  if (!a || !b || a->size() != 1 || b->size() != 1) return std::nullopt;
  const auto [least, most] = std::minmax({a->front(), b->front()});
  if (least < -kMost || most > kMost) return std::nullopt;
  const std::int64_t value = node.op == "Mul" ? a->front() * b->front() : a->front() - b->front();
  const auto& longer = std::max(find(node.inputs[0])->dims, find(node.inputs[1])->dims);
  return Tensor{.dims = longer, .type = ElementType::kInt64, .integers = {value}};
}

// A list of zeros.
std::optional<Tensor> Constants::filled(const Node& node) const {
  const auto size = integers(node.inputs[0]);
  if (!size || size->size() != 1 || size->front() < 0 ||
      size->front() > static_cast<std::int64_t>(kMostInShape))
    return std::nullopt;
  for (const Attribute& attribute : node.attributes) {
    const auto* value = std::get_if<Tensor>(&attribute.value);
    if (value == nullptr || value->integers != std::vector<std::int64_t>{0}) return std::nullopt;
  }
  return integer_list(std::vector<std::int64_t>(static_cast<std::size_t>(size->front())));
}

}  // namespace coxswain::onnx
