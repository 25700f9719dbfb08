#include <fmt/format.h>

#include <algorithm>

#include "trainer/graph/graph.h"

namespace coxswain::graph {

Builder::Builder(Shape input_per_sample) {
  Node node;
  node.op = Op::kInput;
  node.name = "input";
  node.shape = input_per_sample;
  node.shape.n = 1;
  graph_.nodes.push_back(node);
}

// A node that came without a name gets its operation's and a number: "maxpool2".
int Builder::append(Node node) {
  if (node.name.empty()) {
    const auto same = std::count_if(graph_.nodes.begin(), graph_.nodes.end(),
                                    [&](const Node& other) { return other.op == node.op; });
    node.name = fmt::format("{}{}", name_of(node.op), same + 1);
  }
  graph_.nodes.push_back(std::move(node));
  return static_cast<int>(graph_.nodes.size()) - 1;
}

int Builder::conv(int x, std::string name, std::int64_t channels, int kernel, int stride, int pad,
                  bool bias, WeightInit init) {
  Node node;
  node.op = Op::kConv2d;
  node.name = std::move(name);
  node.inputs = {x};
  node.channels = channels;
  node.kernel = kernel;
  node.stride = stride;
  node.pad = pad;
  node.bias = bias;
  node.weight_init = init;
  return append(std::move(node));
}

int Builder::dense(int x, std::string name, std::int64_t outputs, bool bias, WeightInit init) {
  Node node;
  node.op = Op::kDense;
  node.name = std::move(name);
  node.inputs = {x};
  node.channels = outputs;
  node.bias = bias;
  node.weight_init = init;
  return append(std::move(node));
}

int Builder::batch_norm(int x, std::string name, float epsilon, bool fixed_gamma) {
  Node node;
  node.op = Op::kBatchNorm;
  node.name = std::move(name);
  node.inputs = {x};
  node.epsilon = epsilon;
  node.fixed_gamma = fixed_gamma;
  return append(std::move(node));
}

namespace {

Node plain(Op op, std::vector<int> inputs) {
  Node node;
  node.op = op;
  node.inputs = std::move(inputs);
  return node;
}

Node pool(Op op, int x, int kernel, int stride, int pad) {
  Node node = plain(op, {x});
  node.kernel = kernel;
  node.stride = stride;
  node.pad = pad;
  return node;
}

}  // namespace

int Builder::relu(int x) { return append(plain(Op::kRelu, {x})); }
int Builder::tanh(int x) { return append(plain(Op::kTanh, {x})); }
int Builder::gelu(int x) { return append(plain(Op::kGelu, {x})); }
int Builder::add(int a, int b) { return append(plain(Op::kAdd, {a, b})); }
int Builder::global_avg_pool(int x) { return append(plain(Op::kGlobalAvgPool, {x})); }
int Builder::flatten(int x) { return append(plain(Op::kFlatten, {x})); }

int Builder::max_pool(int x, int kernel, int stride, int pad) {
  return append(pool(Op::kMaxPool, x, kernel, stride, pad));
}

int Builder::avg_pool(int x, int kernel, int stride, int pad) {
  return append(pool(Op::kAvgPool, x, kernel, stride, pad));
}

int Builder::dropout(int x, std::string name, float rate) {
  Node node = plain(Op::kDropout, {x});
  node.name = std::move(name);
  node.rate = rate;
  return append(std::move(node));
}

Graph Builder::finish(int logits, float label_smoothing) {
  Node node = plain(Op::kSoftmaxCrossEntropy, {logits});
  node.name = "loss";
  node.label_smoothing = label_smoothing;
  append(std::move(node));
  return std::move(graph_);
}

}  // namespace coxswain::graph
