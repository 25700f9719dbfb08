#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>

#include "trainer/contract/printable.h"
#include "trainer/graph/passes.h"
#include "trainer/onnx/network.h"

namespace coxswain::onnx {

namespace {

// (in, out) -> (out, in)
std::vector<float> transposed(const Tensor& tensor) {
  const auto rows = static_cast<std::size_t>(tensor.dims[0]);
  const auto columns = static_cast<std::size_t>(tensor.dims[1]);
  std::vector<float> values(tensor.floats.size());
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) values[j * rows + i] = tensor.floats[i * columns + j];
  return values;
}

// (out, H * W * C) -> (out, C * H * W)
std::vector<float> channels_first(const std::vector<float>& values, const tensor::Shape& shape) {
  const auto channels = static_cast<std::size_t>(shape.c);
  const auto inputs = static_cast<std::size_t>(shape.per_sample());
  const std::size_t cells = inputs / channels;
  std::vector<float> result(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t input = i % inputs;
    result[i - input + input % channels * cells + input / channels] = values[i];
  }
  return result;
}

// Of tensors that fit the parameter.
std::vector<float> values_of(const Source& source) {
  std::vector<float> values =
      source.transposed ? transposed(*source.tensor) : source.tensor->floats;
  if (source.channels_last) values = channels_first(values, *source.channels_last);
  if (source.factors != nullptr) {
    const std::vector<float>& factors = source.factors->floats;
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] *= factors[i / (values.size() / factors.size())];
  }
  if (source.added != nullptr)
    std::ranges::transform(values, source.added->floats, values.begin(), std::plus());
  return values;
}

// As the graph's parameter has them: a bias may have dimensions of 1 beside its own.
std::vector<std::int64_t> dims_of(const Source& source) {
  std::vector<std::int64_t> dims = source.tensor->dims;
  if (source.of_each_channel) return {static_cast<std::int64_t>(elements_of(dims)), 1, 1, 1};
  if (source.transposed) std::ranges::reverse(dims);
  if (source.parameter.ends_with(".bias")) std::erase(dims, 1);
  if (dims.empty()) dims = {1};
  return dims;
}

}  // namespace

std::vector<checkpoint::NamedTensor> weights_of(const Model& model) {
  const Translation translation = translate(model);
  std::map<std::string, const Source*> sources;
  for (const Source& source : translation.sources) sources[source.parameter] = &source;
  std::vector<checkpoint::NamedTensor> weights;
  for (const graph::Parameter& parameter :
       graph::parameters(graph::infer_shapes(translation.graph, 1))) {
    const Source& source = *sources.at(parameter.name);
    const std::string name = printable(source.tensor->name, 200);
    if (dims_of(source) != parameter.dims)
      refuse(model, fmt::format("tensor {} is ({}), and {} needs ({})", name,
                                fmt::join(source.tensor->dims, ", "), parameter.name,
                                fmt::join(parameter.dims, ", ")));
    for (const Tensor* tensor : {source.tensor, source.factors, source.added})
      if (tensor != nullptr && tensor->external)
        refuse(model, fmt::format("tensor {} has no values", printable(tensor->name, 200)));
    weights.push_back({parameter.name, parameter.dims, values_of(source)});
  }
  return weights;
}

}  // namespace coxswain::onnx
