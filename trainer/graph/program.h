#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trainer/graph/graph.h"

namespace coxswain::graph {

// Value. Data that flows between steps: node i's output is edge i; gradients follow.
struct Edge {
  std::string name;  // "conv1", "d(conv1)", "d(conv1)<-add3"
  Shape shape;
  DataType type = DataType::kFloat32;
  bool operator==(const Edge&) const = default;
};

enum class StepKind {
  // inputs -> output. BatchNorm in training also writes its batch's mean and (unbiased) variance
  // into the gradient slots of its statistics.
  kForward,
  // logits -> d(logits) = (softmax - target) / global_count
  kLossGradient,
  // contributions of all readers [, output] -> their sum, times the activation's derivative
  // computed from the output
  kJoinGradients,
  // Where the operation's row sets them apart, and where the input needs no gradient:
  // input, [output,] d(output) -> parameter gradients
  kBackwardWeights,
  // [input,] [output,] d(output) -> this node's contribution to d(input). BatchNorm: parameter
  // gradients as well, and its own activation's derivative. Concat: one such step for each of its
  // inputs.
  kBackwardData,
};

std::string_view name_of(StepKind kind);  // "backward-data"

// Value. One thing to do. `reads` and `writes` name edges; parameters are the node's own.
//
// Backward steps read, in this order, the node's input, its output and d(output), and of the first
// two only what the operation's row says; the output also where they take the derivative of the
// node's activation. The loss's forward step writes no edge: its results are sums.
struct Step {
  StepKind kind = StepKind::kForward;
  int node = 0;
  std::vector<int> reads;
  std::vector<int> writes;
  std::vector<int> completes;  // Program::parameters whose gradients are final after this step
  int input = 0;               // which of the node's inputs kBackwardData is about
  bool operator==(const Step&) const = default;
};

// Value. A model made ready for one batch size and one mode: what to run, in order.
//
// The derivative of a fused activation stands in kJoinGradients of its node, except for BatchNorm,
// which does it itself, and for a Relu whose only reader is a MaxPool: there it is taken at the
// pool's output, which has the same sign at the place that the gradient goes to, and is a quarter
// of the size.
struct Program {
  Graph graph;
  bool training = false;
  std::vector<Edge> edges;
  std::vector<Step> steps;
  int first_backward = 0;  // index into steps; steps.size() for evaluation

  // In the order of the flat buffer: statistics (complete after forward), then trainable tensors in
  // the order in which their gradients complete.
  std::vector<Parameter> parameters;

  int gradient_of(int node) const { return gradient_edges[static_cast<std::size_t>(node)]; }
  std::vector<int> gradient_edges;  // a node -> the edge of d(output); -1 where there is none
  bool operator==(const Program&) const = default;
};

// The activation whose derivative a kJoinGradients step takes, from the output it reads last; kNone
// where it only sums.
Activation joined_activation(const Program& program, const Step& step);

std::string to_text(const Program& program);

}  // namespace coxswain::graph
