#include "trainer/graph/models/layer_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "trainer/contract/error.h"
#include "trainer/graph/operations.h"

namespace coxswain::graph {

namespace {

constexpr std::int64_t kMostPatchValues = 256;

[[noreturn]] void refuse_layer(const Layer& layer, const std::string& what) {
  throw Error(ExitCode::kBadInput, fmt::format("[model] {}: {}", layer.where, what));
}

// Appends layers to a graph, and gives each its shape at once: so that the line that doesn't fit is
// known.
class ListBuilder {
 public:
  ListBuilder(Shape input, std::int64_t classes) : builder_(input), classes_(classes) {
    builder_.node(0).shape.n = 1;
  }

  int append(std::span<const Layer> layers, int x) {
    for (const Layer& layer : layers) x = append(layer, x);
    return x;
  }

  Graph finish(int logits, const Layer& last, float label_smoothing) {
    const Shape shape = shape_of(logits);
    if (shape.per_sample() != classes_ || shape.c != classes_)
      refuse_layer(last, fmt::format("the last layer gives {} where {} classes need {} values: end "
                                     "with `dense: {{outputs: classes}}`",
                                     tensor::to_text(shape), classes_, classes_));
    return builder_.finish(logits, label_smoothing);
  }

 private:
  const Shape& shape_of(int x) { return builder_.node(x).shape; }

  int append(const Layer& layer, int x) {
    const bool has_body = layer.kind == LayerKind::kResidual || layer.kind == LayerKind::kGate;
    if (has_body && layer.body.empty()) refuse_layer(layer, "has no layers in its body");
    const int appended = appended_to(layer, x);
    give_shape(layer, appended);
    return appended;
  }

  int appended_to(const Layer& layer, int x) {
    switch (layer.kind) {
      case LayerKind::kConv:
        return builder_.conv(x, layer.name, layer.channels, layer.kernel, layer.stride, layer.pad,
                             layer.bias, first_weights(layer, x), groups_of(layer, x));
      case LayerKind::kBatchNorm:
        return builder_.batch_norm(x, layer.name, layer.epsilon, /*fixed_gamma=*/!layer.scale);
      case LayerKind::kRelu:
        return builder_.relu(x);
      case LayerKind::kTanh:
        return builder_.tanh(x);
      case LayerKind::kGelu:
        return builder_.gelu(x);
      case LayerKind::kSigmoid:
        return builder_.sigmoid(x);
      case LayerKind::kSilu:
        return builder_.silu(x);
      case LayerKind::kHardSwish:
        return builder_.hard_swish(x);
      case LayerKind::kHardSigmoid:
        return builder_.hard_sigmoid(x);
      case LayerKind::kRelu6:
        return builder_.relu6(x);
      case LayerKind::kMaxPool:
        return builder_.max_pool(x, layer.kernel, layer.stride, layer.pad);
      case LayerKind::kAvgPool:
        return builder_.avg_pool(x, layer.kernel, layer.stride, layer.pad, layer.counts_padding);
      case LayerKind::kGlobalAvgPool:
        return builder_.global_avg_pool(x);
      case LayerKind::kFlatten:
        return builder_.flatten(x);
      case LayerKind::kDropout:
        return builder_.dropout(x, layer.name, layer.rate);
      case LayerKind::kDense:
        return builder_.dense(x, layer.name, layer.channels == 0 ? classes_ : layer.channels,
                              layer.bias, WeightInit::kHeNormalIn);
      case LayerKind::kGate:
        return builder_.multiply(x, append(layer.body, x));
      case LayerKind::kConcat:
        return concat(layer, x);
      case LayerKind::kResidual:
        break;
    }
    const int body = append(layer.body, x);
    return builder_.add(body, append(layer.shortcut, x));
  }

  // Whitening is of images' patches, of which there are as many directions as they have values.
  WeightInit first_weights(const Layer& layer, int x) {
    if (layer.first_weights == FirstWeights::kHe) return WeightInit::kHeNormalIn;
    if (layer.first_weights == FirstWeights::kIdentity) {
      if (layer.groups != 1) refuse_layer(layer, "firstWeights: identity has no groups");
      return WeightInit::kIdentity;
    }
    if (std::exchange(whitens_, true))
      refuse_layer(layer, "firstWeights: whitening is for one convolution alone");
    const std::int64_t values = shape_of(x).c * layer.kernel * layer.kernel;
    if (x != builder_.input() || layer.groups != 1)
      refuse_layer(layer, "firstWeights: whitening is for the first layer alone, without groups");
    if (std::min(shape_of(x).h, shape_of(x).w) < layer.kernel || values > kMostPatchValues)
      refuse_layer(layer, fmt::format("firstWeights: whitening is of patches within the image, of "
                                      "at most {} values, not {} x {} x {}",
                                      kMostPatchValues, shape_of(x).c, layer.kernel, layer.kernel));
    if (layer.channels > 2 * values)
      refuse_layer(layer,
                   fmt::format("firstWeights: whitening gives at most {} channels, twice the "
                               "{} values of a patch, not {}",
                               2 * values, values, layer.channels));
    return WeightInit::kWhitening;
  }

  int groups_of(const Layer& layer, int x) {
    return layer.groups == 0 ? static_cast<int>(shape_of(x).c) : layer.groups;
  }

  int concat(const Layer& layer, int x) {
    std::vector<int> ends;
    for (const std::vector<Layer>& branch : layer.branches) ends.push_back(append(branch, x));
    return builder_.concat(std::move(ends));
  }

  void give_shape(const Layer& layer, int x) {
    Node& node = builder_.node(x);
    try {
      node.shape = operation(node.op).shape(builder_.graph(), node);
    } catch (const Error& error) {
      const std::string_view said = error.what();
      constexpr std::string_view kPrefix = "[model] ";
      refuse_layer(layer, std::string(said.substr(said.starts_with(kPrefix) ? kPrefix.size() : 0)));
    }
  }

  Builder builder_;
  bool whitens_ = false;
  std::int64_t classes_;
};

}  // namespace

Graph build_layers(std::span<const Layer> layers, Shape input, std::int64_t classes,
                   float label_smoothing) {
  if (layers.empty()) throw Error(ExitCode::kBadInput, "[model] a network without layers");
  ListBuilder builder(input, classes);
  const int logits = builder.append(layers, 0);
  return builder.finish(logits, layers.back(), label_smoothing);
}

}  // namespace coxswain::graph
