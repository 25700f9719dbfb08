#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/onnx/model.h"

namespace coxswain::onnx {

// Throws Error (65): "[model] net.onnx: node /conv1/Conv (Conv): what".
[[noreturn]] void refuse(const Model& model, const Node& node, const std::string& what);

// What a node says. Refers to both, which must outlive it. Throws Error (65) for an attribute that
// is not among the known ones, or of another kind.
class NodeAttributes {
 public:
  NodeAttributes(const Model& model, const Node& node,
                 std::initializer_list<std::string_view> known);

  bool has(std::string_view name) const { return find(name) != nullptr; }
  std::int64_t integer(std::string_view name, std::int64_t without) const;
  float real(std::string_view name, float without) const;
  std::string text(std::string_view name, std::string without) const;
  std::vector<std::int64_t> integers(std::string_view name,
                                     std::vector<std::int64_t> without) const;

 private:
  const Attribute* find(std::string_view name) const;
  template <class Value>
  Value value(std::string_view name, Value without) const;

  const Model& model_;
  const Node& node_;
};

}  // namespace coxswain::onnx
