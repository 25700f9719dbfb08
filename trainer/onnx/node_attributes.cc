#include "trainer/onnx/node_attributes.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/contract/printable.h"

namespace coxswain::onnx {

namespace {

constexpr std::size_t kMostOfAttribute = 200;

}  // namespace

void refuse(const Model& model, const Node& node, const std::string& what) {
  std::string name = node.name;
  if (name.empty() && !node.outputs.empty()) name = node.outputs.front();
  refuse(model, fmt::format("node {} ({}): {}", printable(name, kMostOfAttribute),
                            printable(node.op, kMostOfAttribute), what));
}

NodeAttributes::NodeAttributes(const Model& model, const Node& node,
                               std::initializer_list<std::string_view> known)
    : model_(model), node_(node) {
  for (const Attribute& attribute : node.attributes)
    if (std::ranges::find(known, attribute.name) == known.end())
      refuse(model, node,
             fmt::format("its attribute {} is not known", printable(attribute.name, 100)));
}

const Attribute* NodeAttributes::find(std::string_view name) const {
  const auto found = std::ranges::find(node_.attributes, name, &Attribute::name);
  return found == node_.attributes.end() ? nullptr : &*found;
}

template <class Value>
Value NodeAttributes::value(std::string_view name, Value without) const {
  const Attribute* attribute = find(name);
  if (attribute == nullptr) return without;
  if (const auto* held = std::get_if<Value>(&attribute->value)) return *held;
  refuse(model_, node_, fmt::format("its attribute {} is of another kind than it must be", name));
}

std::int64_t NodeAttributes::integer(std::string_view name, std::int64_t without) const {
  return value(name, without);
}

float NodeAttributes::real(std::string_view name, float without) const {
  return value(name, without);
}

std::string NodeAttributes::text(std::string_view name, std::string without) const {
  return value(name, std::move(without));
}

std::vector<std::int64_t> NodeAttributes::integers(std::string_view name,
                                                   std::vector<std::int64_t> without) const {
  return value(name, std::move(without));
}

}  // namespace coxswain::onnx
