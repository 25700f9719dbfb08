#pragma once

#include <span>
#include <string>
#include <vector>

#include "trainer/contract/words.h"
#include "trainer/graph/graph.h"

namespace coxswain::graph {

enum class LayerKind {
  kConv,
  kBatchNorm,
  kRelu,
  kTanh,
  kGelu,
  kSigmoid,
  kSilu,
  kHardSwish,
  kHardSigmoid,
  kRelu6,
  kMaxPool,
  kAvgPool,
  kGlobalAvgPool,
  kFlatten,
  kDropout,
  kDense,
  kResidual,
  kGate,
  kConcat
};
constexpr Words<LayerKind, 19> words_of(LayerKind) {
  return {{{LayerKind::kConv, "conv"},
           {LayerKind::kBatchNorm, "batch-norm"},
           {LayerKind::kRelu, "relu"},
           {LayerKind::kTanh, "tanh"},
           {LayerKind::kGelu, "gelu"},
           {LayerKind::kSigmoid, "sigmoid"},
           {LayerKind::kSilu, "silu"},
           {LayerKind::kHardSwish, "hard-swish"},
           {LayerKind::kHardSigmoid, "hard-sigmoid"},
           {LayerKind::kRelu6, "relu6"},
           {LayerKind::kMaxPool, "max-pool"},
           {LayerKind::kAvgPool, "avg-pool"},
           {LayerKind::kGlobalAvgPool, "global-avg-pool"},
           {LayerKind::kFlatten, "flatten"},
           {LayerKind::kDropout, "dropout"},
           {LayerKind::kDense, "dense"},
           {LayerKind::kResidual, "residual"},
           {LayerKind::kGate, "gate"},
           {LayerKind::kConcat, "concat"}}};
}

// What a convolution's weights begin as.
enum class FirstWeights { kHe, kIdentity, kWhitening };
constexpr Words<FirstWeights, 3> words_of(FirstWeights) {
  return {{{FirstWeights::kHe, "he"},
           {FirstWeights::kIdentity, "identity"},
           {FirstWeights::kWhitening, "whitening"}}};
}

// Value. One layer of a network that a user wrote down; what a kind doesn't have stays at its
// default.
struct Layer {
  LayerKind kind = LayerKind::kRelu;
  std::string name = {};      // of its tensors: conv, batch-norm, dense, dropout
  std::string where = {};     // "net.yaml:12"
  std::int64_t channels = 0;  // conv; dense: 0 is as many as classes
  int kernel = 0;
  int stride = 1;
  int pad = 0;
  int groups = 1;               // conv; 0 is as many as the input has channels
  bool counts_padding = false;  // avg-pool
  bool bias = true;
  bool scale = true;  // batch-norm
  FirstWeights first_weights = FirstWeights::kHe;  // conv
  float epsilon = 1e-5F;
  float rate = 0;
  std::vector<Layer> body = {};      // residual: its sum with the shortcut; gate: its product
  std::vector<Layer> shortcut = {};  // residual; empty: the input as it is
  std::vector<std::vector<Layer>> branches =
      {};  // concat: each from its input, which is an empty one
};

// Convolutions and dense layers begin as He et al. 2015 draw them. Throws Error (65) that names the
// line of a layer that doesn't fit what comes before it, or of a last one that isn't one value a
// class.
Graph build_layers(std::span<const Layer> layers, Shape input, std::int64_t classes,
                   float label_smoothing);

}  // namespace coxswain::graph
