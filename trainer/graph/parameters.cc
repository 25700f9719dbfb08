#include <cmath>

#include "trainer/graph/graph.h"

namespace coxswain::graph {

namespace {

struct Fans {
  double in = 0;
  double out = 0;
};

float root(double value) { return static_cast<float>(std::sqrt(value)); }

Initializer weight_initializer(WeightInit rule, const Fans& fans, std::int64_t outputs) {
  switch (rule) {
    case WeightInit::kXavierUniform:
      return {InitKind::kUniform, root(6 / (fans.in + fans.out))};
    case WeightInit::kHeNormalIn:
      return {InitKind::kNormal, root(2 / fans.in)};
    case WeightInit::kHeNormalOut:
      return {InitKind::kNormal, root(2 / fans.out)};
    case WeightInit::kSingaConv:
      return {InitKind::kNormal, root(2 / (fans.in + static_cast<double>(outputs)))};
    case WeightInit::kSingaDense:
      return {InitKind::kNormal, root(2 / (fans.in + fans.out))};
    case WeightInit::kTorchDense:
      return {InitKind::kUniform, root(1 / fans.in)};
  }
  return {};
}

// Conv2d: (K, C, R, S). Dense: (out, in), `in` the elements of one input sample.
std::vector<Parameter> weight_and_bias(const Graph& graph, int index) {
  const Node& node = graph.nodes[static_cast<std::size_t>(index)];
  const Shape& in = graph.nodes[static_cast<std::size_t>(node.inputs[0])].shape;
  const bool dense = node.op == Op::kDense;
  const std::int64_t k = node.channels;
  const std::int64_t window = std::int64_t{node.kernel} * node.kernel;
  const std::int64_t fan_in = dense ? in.per_sample() : in.c * window;
  const std::int64_t fan_out = dense ? k : k * window;

  Parameter weight{node.name + ".weight", SegmentKind::kWeight, {}, {}, index};
  if (dense) {
    weight.dims = {k, fan_in};
  } else {
    weight.dims = {k, in.c, node.kernel, node.kernel};
  }
  weight.init = weight_initializer(node.weight_init,
                                   {static_cast<double>(fan_in), static_cast<double>(fan_out)}, k);
  std::vector<Parameter> result{weight};
  if (node.bias) {
    const bool torch = node.weight_init == WeightInit::kTorchDense;
    result.push_back(
        {node.name + ".bias", SegmentKind::kBias, {k}, torch ? weight.init : Initializer{}, index});
  }
  return result;
}

std::vector<Parameter> batch_norm_parameters(const Node& node, int index) {
  const std::vector<std::int64_t> dims{node.shape.c};
  const Initializer one{InitKind::kOne, 0};
  std::vector<Parameter> result;
  if (!node.fixed_gamma) {
    result.push_back({node.name + ".weight", SegmentKind::kGamma, dims, one, index});
  }
  result.push_back({node.name + ".bias", SegmentKind::kBeta, dims, {}, index});
  result.push_back({node.name + ".running_mean", SegmentKind::kStatistic, dims, {}, index});
  result.push_back({node.name + ".running_var", SegmentKind::kStatistic, dims, one, index});
  return result;
}

}  // namespace

std::vector<Parameter> parameters(const Graph& graph, int node) {
  switch (graph.nodes[static_cast<std::size_t>(node)].op) {
    case Op::kConv2d:
    case Op::kDense:
      return weight_and_bias(graph, node);
    case Op::kBatchNorm:
      return batch_norm_parameters(graph.nodes[static_cast<std::size_t>(node)], node);
    default:
      return {};
  }
}

std::vector<Parameter> parameters(const Graph& graph) {
  std::vector<Parameter> result;
  for (int node = 0; node < static_cast<int>(graph.nodes.size()); ++node) {
    for (Parameter& parameter : parameters(graph, node)) result.push_back(std::move(parameter));
  }
  return result;
}

}  // namespace coxswain::graph
