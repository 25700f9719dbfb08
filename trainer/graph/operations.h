#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/graph/graph.h"

namespace coxswain::graph {

// How far two backends' results may lie apart: relative * |value| + of_largest * (greatest |value|
// of the tensor). The second part is for sums of products, whose rounding follows their terms and
// not their result. A share `outliers` of the elements may be anything: where two inputs are equal,
// or an output is zero but for rounding, one backend sends the whole gradient where the other sends
// none.
struct Tolerance {
  double relative = 0;
  double of_largest = 0;
  double outliers = 0;
};

// Who takes the derivative of an activation that fuse folded into an operation.
enum class Fuses {
  kNothing,  // none is folded into it
  kAfter,    // the step that joins the contributions to d(output)
  kWithin,   // its own backward step, from the output
};

// Value. What the passes and CheckedBackend know of an operation: a row of the table in
// operations.cc. What it computes is in one file of each backend.
struct Operation {
  Op op = Op::kInput;
  std::string_view name;  // "conv2d"

  // Of the output, and of the node's own tensors; both need the shapes of earlier nodes, the second
  // the node's too. They refuse a node that can't be computed.
  Shape (*shape)(const Graph& graph, const Node& node) = nullptr;
  std::vector<Parameter> (*parameters)(const Graph& graph, int node) = nullptr;

  // What backward reads beside d(output). `weights_apart`: the gradients of its parameters are a
  // step of their own, which always reads the input.
  bool weights_apart = false;
  bool reads_input = false;
  bool reads_output = false;
  bool reads_others = false;     // of `each_input`: the inputs but the one that the step is for
  bool each_input = false;       // one step for every input that needs a gradient: Step::input
  bool passes_gradient = false;  // no step at all: d(output) is every input's gradient as it stands

  // A Relu before it may take its derivative at this operation's output: each of its elements is
  // one of the inputs, and the gradient goes there.
  bool selects = false;
  Fuses fuses = Fuses::kNothing;
  Activation activation = Activation::kNone;  // what fuse makes of it, at the operation before it

  // In float32: a few units in the last place (6e-8), times the root of the terms that are summed.
  Tolerance forward = {2e-6, 1e-6};
  Tolerance backward = {2e-6, 1e-6};
};

std::span<const Operation> operations();  // in the order of Op
const Operation& operation(Op op);

// The attributes that don't stand at their defaults: " kernel=3 stride=1 pad=1 bias relu".
std::string attributes_text(const Node& node);

// Throws Error (65) naming the layer.
[[noreturn]] void refuse(const Node& node, const std::string& what);

}  // namespace coxswain::graph
