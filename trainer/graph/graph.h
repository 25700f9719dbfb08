#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/tensor/data_type.h"
#include "trainer/tensor/parameter_layout.h"
#include "trainer/tensor/shape.h"

namespace coxswain::graph {

using tensor::DataType;
using tensor::SegmentKind;
using tensor::Shape;

enum class Op {
  kInput,
  kConv2d,
  kDense,
  kBatchNorm,
  kRelu,
  kTanh,
  kGelu,
  kSigmoid,
  kSilu,         // x times its sigmoid
  kHardSwish,    // x * min(max(x + 3, 0), 6) / 6
  kHardSigmoid,  // min(max(x + 3, 0), 6) / 6
  kClip,         // between Node::low and Node::high
  kAdd,
  kMultiply,  // by a tensor of the same shape, or by a number for each sample and channel
  kConcat,    // along the channels, in the order of its inputs
  kMaxPool,
  kAvgPool,  // the mean over the cells of the window that lie inside, or of all: counts_padding
  kGlobalAvgPool,
  kFlatten,
  kDropout,
  kSoftmaxCrossEntropy,
};

enum class Activation { kNone, kRelu, kTanh };

// How a parameter's first values are drawn. Bounds and deviations are resolved by infer_shapes.
enum class InitKind { kZero, kOne, kNormal, kUniform };
struct Initializer {
  InitKind kind = InitKind::kZero;
  float scale = 0;         // standard deviation of kNormal, bound of kUniform
  bool passes_on = false;  // the first filters give a channel each, as it is
  bool operator==(const Initializer&) const = default;
};

// The rule by which infer_shapes computes a weight's initializer from its fan-in and fan-out.
// fan_in = C/groups*R*S, fan_out = K*R*S; for Dense fan_in = in, fan_out = out.
enum class WeightInit {
  kXavierUniform,  // U(+-sqrt(6 / (fan_in + fan_out))): Glorot; Keras, D2L (avg, magnitude 3)
  kHeNormalIn,     // N(0, sqrt(2 / fan_in)): MXNet's Xavier(gaussian, in, 2)
  kHeNormalOut,    // N(0, sqrt(2 / fan_out)): torchvision's convolutions
  kSingaConv,      // N(0, sqrt(2 / (fan_in + K)))
  kSingaDense,     // N(0, sqrt(2 / (in + out)))
  kTorchDense,     // U(+-1/sqrt(fan_in)), the bias too
  // Jordan 2024, "94% on CIFAR-10 in 3.29 Seconds on a Single GPU" (arXiv:2404.00498):
  kIdentity,   // kHeNormalIn, but the first filters give a channel each: section 3.3
  kWhitening,  // kHeNormalIn, until train::whiten has seen images: section 3.2
};

// A trainable tensor or a running statistic of one node.
struct Parameter {
  std::string name;  // "conv1.weight"
  SegmentKind kind = SegmentKind::kWeight;
  std::vector<std::int64_t> dims;  // canonical
  Initializer init;
  int node = -1;
  bool is_matrix() const { return dims.size() > 1; }  // a convolution's or a dense layer's weight
  bool operator==(const Parameter&) const = default;
};

// Value. One operation and its output. Attributes that an operation doesn't have stay at their
// defaults.
struct Node {
  Op op = Op::kInput;
  std::string name = {};         // unique; prefix of its parameters' names
  std::vector<int> inputs = {};  // indices of earlier nodes
  std::int64_t channels = 0;     // Conv2d, Dense: outputs K
  int kernel = 0;                // Conv2d, MaxPool, AvgPool: square window
  int stride = 1;
  int pad = 0;                  // before the first row and column
  int pad_extra = 0;            // so many more after the last
  int groups = 1;               // Conv2d: outputs of one read as many of C/groups inputs
  bool counts_padding = false;  // AvgPool: as zeros
  bool bias = false;            // Conv2d, Dense
  bool fixed_gamma = false;     // BatchNorm: gamma is 1 and not trained (MXNet's bn_data)
  bool joined = false;          // BatchNorm: in training, of the rows of all ranks
  float epsilon = 0;            // BatchNorm
  float rate = 0;               // Dropout: probability of zero
  float low = 0;                // Clip
  float high = 0;               // Clip
  float label_smoothing = 0;    // SoftmaxCrossEntropy
  WeightInit weight_init = WeightInit::kXavierUniform;

  Activation activation = Activation::kNone;  // set by fuse
  Shape shape = {};                           // of the output; set by infer_shapes
  DataType type = DataType::kFloat32;         // of the output; set by assign_types
  int pad_after() const { return pad + pad_extra; }
  bool operator==(const Node&) const = default;
};

// Value. A model: nodes in topological order, the first is the input, the last the loss.
struct Graph {
  std::vector<Node> nodes;

  const Node& input() const { return nodes.front(); }
  const Node& loss() const { return nodes.back(); }
  // The node whose output the loss reads: (N, classes, 1, 1).
  const Node& logits() const {
    return nodes[static_cast<std::size_t>(nodes.back().inputs.front())];
  }
  bool operator==(const Graph&) const = default;
};

std::string_view name_of(Activation activation);
std::string to_text(const Graph& graph);

// The type that is not float32, of a graph that has one: activations and products are of it.
DataType narrow_type(const Graph& graph);
// What a node rounds weights and inputs to before it multiplies them.
DataType product_type(const Graph& graph, const Node& node);

// How many inputs of later nodes each node's output is.
std::vector<int> reader_counts(const Graph& graph);

// Parameters of one node, or of every node in node order; needs shapes.
std::vector<Parameter> parameters(const Graph& graph, int node);
std::vector<Parameter> parameters(const Graph& graph);

// Concat: the channel of its output at which those of its inputs[input] begin.
std::int64_t first_channel(const Graph& graph, const Node& node, int input);

// Forward multiply-accumulates of one sample, of one node or of all: each weight meets each
// position of the output.
std::int64_t multiply_accumulates(const Graph& graph, int node);
std::int64_t multiply_accumulates(const Graph& graph);

// A Graph under construction: each call appends a node and returns its index.
class Builder {
 public:
  explicit Builder(Shape input_per_sample);  // n is ignored
  int input() const { return 0; }

  int conv(int x, std::string name, std::int64_t channels, int kernel, int stride, int pad,
           bool bias, WeightInit init, int groups = 1) {
    return append({.op = Op::kConv2d,
                   .name = std::move(name),
                   .inputs = {x},
                   .channels = channels,
                   .kernel = kernel,
                   .stride = stride,
                   .pad = pad,
                   .groups = groups,
                   .bias = bias,
                   .weight_init = init});
  }
  int dense(int x, std::string name, std::int64_t outputs, bool bias, WeightInit init) {
    return append({.op = Op::kDense,
                   .name = std::move(name),
                   .inputs = {x},
                   .channels = outputs,
                   .bias = bias,
                   .weight_init = init});
  }
  int batch_norm(int x, std::string name, float epsilon = 1e-5F, bool fixed_gamma = false) {
    return append({.op = Op::kBatchNorm,
                   .name = std::move(name),
                   .inputs = {x},
                   .fixed_gamma = fixed_gamma,
                   .epsilon = epsilon});
  }
  int max_pool(int x, int kernel, int stride, int pad = 0) {
    return append(
        {.op = Op::kMaxPool, .inputs = {x}, .kernel = kernel, .stride = stride, .pad = pad});
  }
  int avg_pool(int x, int kernel, int stride, int pad = 0, bool counts_padding = false) {
    return append({.op = Op::kAvgPool,
                   .inputs = {x},
                   .kernel = kernel,
                   .stride = stride,
                   .pad = pad,
                   .counts_padding = counts_padding});
  }
  int dropout(int x, std::string name, float rate) {
    return append({.op = Op::kDropout, .name = std::move(name), .inputs = {x}, .rate = rate});
  }
  int relu(int x) { return append({.op = Op::kRelu, .inputs = {x}}); }
  int tanh(int x) { return append({.op = Op::kTanh, .inputs = {x}}); }
  int gelu(int x) { return append({.op = Op::kGelu, .inputs = {x}}); }
  int sigmoid(int x) { return append({.op = Op::kSigmoid, .inputs = {x}}); }
  int silu(int x) { return append({.op = Op::kSilu, .inputs = {x}}); }
  int hard_swish(int x) { return append({.op = Op::kHardSwish, .inputs = {x}}); }
  int hard_sigmoid(int x) { return append({.op = Op::kHardSigmoid, .inputs = {x}}); }
  int clip(int x, float low, float high) {
    return append({.op = Op::kClip, .inputs = {x}, .low = low, .high = high});
  }
  int relu6(int x) { return clip(x, 0, 6); }
  int concat(std::vector<int> inputs) {
    return append({.op = Op::kConcat, .inputs = std::move(inputs)});
  }
  int add(int a, int b) { return append({.op = Op::kAdd, .inputs = {a, b}}); }
  int multiply(int a, int b) { return append({.op = Op::kMultiply, .inputs = {a, b}}); }
  int global_avg_pool(int x) { return append({.op = Op::kGlobalAvgPool, .inputs = {x}}); }
  int flatten(int x) { return append({.op = Op::kFlatten, .inputs = {x}}); }

  const Graph& graph() const { return graph_; }
  Node& node(int x) { return graph_.nodes[static_cast<std::size_t>(x)]; }

  // Appends the loss.
  Graph finish(int logits, float label_smoothing) {
    append({.op = Op::kSoftmaxCrossEntropy,
            .name = "loss",
            .inputs = {logits},
            .label_smoothing = label_smoothing});
    return std::move(graph_);
  }

 private:
  int append(Node node);
  Graph graph_;
};

}  // namespace coxswain::graph
