#pragma once

#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/backend/executable.h"
#include "trainer/graph/graph.h"

// The definition of every operation as plain loops over canonical fp32 data. Each has one file, or
// shares it with its family.
namespace coxswain::backend::reference {

using graph::Activation;
using tensor::Shape;

using In = std::span<const float>;
using Out = std::span<float>;

// View. One parameter of a node.
struct NodeParameter {
  std::string suffix;  // "weight"
  In values = {};      // a weight's are rounded to what the node computes in
  Out gradients = {};
};

// View. What one step of a node works on; empty is what the node does not have or the step does not
// read. Activations are (N, C, H, W). `out` is overwritten.
struct Work {
  const graph::Node& node;
  Shape in;                     // of the first input; in backward of the step's input
  std::vector<In> inputs = {};  // in backward the first, or those that the step reads
  In y = {};
  In d_y = {};
  Out out = {};                    // y in forward, d(input) in backward
  std::int64_t first_channel = 0;  // Concat's backward: of that input in d_y
  std::span<const NodeParameter> parameters = {};
  bool training = true;
  const Batch* batch = nullptr;
  std::vector<double>* kept = nullptr;  // what forward leaves for backward
  LossSums* sums = nullptr;             // the loss's result

  In x() const { return inputs[0]; }
  In values(std::string_view suffix) const;
  Out gradients(std::string_view suffix) const;
};

// Value. An operation's loops, null for steps that it does not have.
struct Loops {
  void (*forward)(const Work&) = nullptr;
  void (*backward_data)(const Work&) = nullptr;
  void (*backward_weights)(const Work&) = nullptr;
};

extern const Loops kConv2d;
extern const Loops kDense;
extern const Loops kBatchNorm;
extern const Loops kRelu;
extern const Loops kTanh;
extern const Loops kGelu;
extern const Loops kSigmoid;
extern const Loops kSilu;
extern const Loops kHardSwish;
extern const Loops kHardSigmoid;
extern const Loops kClip;
extern const Loops kAdd;
extern const Loops kMultiply;
extern const Loops kConcat;
extern const Loops kMaxPool;
extern const Loops kAvgPool;
extern const Loops kGlobalAvgPool;
extern const Loops kFlatten;
extern const Loops kDropout;
extern const Loops kSoftmaxCrossEntropy;

inline const Loops& loops_of(graph::Op op) {
  using graph::Op;
  switch (op) {
    case Op::kInput:
      break;
    case Op::kConv2d:
      return kConv2d;
    case Op::kDense:
      return kDense;
    case Op::kBatchNorm:
      return kBatchNorm;
    case Op::kRelu:
      return kRelu;
    case Op::kTanh:
      return kTanh;
    case Op::kGelu:
      return kGelu;
    case Op::kSigmoid:
      return kSigmoid;
    case Op::kSilu:
      return kSilu;
    case Op::kHardSwish:
      return kHardSwish;
    case Op::kHardSigmoid:
      return kHardSigmoid;
    case Op::kClip:
      return kClip;
    case Op::kAdd:
      return kAdd;
    case Op::kMultiply:
      return kMultiply;
    case Op::kConcat:
      return kConcat;
    case Op::kMaxPool:
      return kMaxPool;
    case Op::kAvgPool:
      return kAvgPool;
    case Op::kGlobalAvgPool:
      return kGlobalAvgPool;
    case Op::kFlatten:
      return kFlatten;
    case Op::kDropout:
      return kDropout;
    case Op::kSoftmaxCrossEntropy:
      return kSoftmaxCrossEntropy;
  }
  std::abort();  // the input has no steps
}

// An activation that is part of another operation: y, and d(y) times the derivative at y.
void activate(Activation activation, Out values);
float derivative_at_output(Activation activation, float y);
void multiply_by_derivative(Activation activation, In y, Out d_y);

}  // namespace coxswain::backend::reference
