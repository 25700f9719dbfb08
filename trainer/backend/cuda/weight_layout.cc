#include "trainer/backend/cuda/weight_layout.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

namespace coxswain::backend::cuda {

namespace {

constexpr std::string_view kPrefix = "hwc:";

}  // namespace

std::optional<WeightOrder> weight_order(const graph::Graph& graph,
                                        const graph::Parameter& parameter) {
  if (!parameter.is_matrix()) return std::nullopt;
  const graph::Node& node = graph.nodes[static_cast<std::size_t>(parameter.node)];
  const tensor::Shape& in = graph.nodes[static_cast<std::size_t>(node.inputs[0])].shape;
  const std::int64_t cells =
      node.op == graph::Op::kConv2d ? std::int64_t{node.kernel} * node.kernel : in.h * in.w;
  const std::int64_t channels = in.c / node.groups;
  if (channels == 1 || cells == 1) return std::nullopt;
  return WeightOrder{parameter.dims[0], channels, cells};
}

std::string to_layout(const WeightOrder& order) {
  return fmt::format("{}{}", kPrefix, order.channels);
}

std::optional<WeightOrder> order_of(const tensor::Segment& segment) {
  const std::string_view text = segment.layout;
  if (!text.starts_with(kPrefix)) return std::nullopt;
  WeightOrder order{segment.dims[0], 1, 1};
  std::from_chars(text.data() + kPrefix.size(), text.data() + text.size(), order.channels);
  order.cells = segment.elements() / order.outputs / order.channels;
  return order;
}

void transpose(std::span<const float> from, std::span<float> to, std::int64_t a, std::int64_t b) {
  const auto outer = static_cast<std::int64_t>(from.size()) / (a * b);
  for (std::int64_t o = 0; o < outer; ++o) {
    const float* source = from.data() + o * a * b;
    float* target = to.data() + o * a * b;
    for (std::int64_t i = 0; i < a; ++i) {
      for (std::int64_t j = 0; j < b; ++j) target[j * a + i] = source[i * b + j];
    }
  }
}

}  // namespace coxswain::backend::cuda
