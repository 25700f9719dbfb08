#include "trainer/onnx/model.h"

#include <fmt/format.h>

#include <functional>
#include <numeric>

#include "trainer/contract/error.h"

namespace coxswain::onnx {

bool is_float(ElementType type) {
  return type == ElementType::kFloat || type == ElementType::kHalf ||
         type == ElementType::kDouble || type == ElementType::kBFloat16;
}

std::uint64_t elements_of(const std::vector<std::int64_t>& dims) {
  return std::accumulate(
      dims.begin(), dims.end(), std::uint64_t{1},
      [](std::uint64_t all, std::int64_t dim) { return all * static_cast<std::uint64_t>(dim); });
}

void refuse(const Model& model, const std::string& what) {
  throw Error(ExitCode::kBadInput, fmt::format("[model] {}: {}", model.where, what));
}

Model without_weights(Model model) {
  const auto strip = [](Tensor& tensor) {
    if (!is_float(tensor.type) || elements_of(tensor.dims) <= 1) return;
    tensor.type = ElementType::kFloat;
    tensor.floats = {};
    tensor.external = External{};
  };
  for (Tensor& tensor : model.tensors) strip(tensor);
  for (Node& node : model.nodes)
    for (Attribute& attribute : node.attributes)
      if (auto* tensor = std::get_if<Tensor>(&attribute.value)) strip(*tensor);
  return model;
}

}  // namespace coxswain::onnx
