#include <algorithm>

#include "trainer/backend/cuda/recording.h"
#include "trainer/backend/cuda/weight_layout.h"

namespace coxswain::backend::cuda {

namespace {

using graph::Node;
using graph::Op;
using graph::Step;
using graph::StepKind;

Product prepare(Recording& r, const Node& node, Pass pass) {
  const Shape& in = r.input_of(node).shape;
  if (node.op != Op::kDense) return r.products.prepare(convolution_of(node, in, pass));
  const bool forward = pass == Pass::kForward;
  return r.products.prepare(Dense{.pass = pass,
                                  .rows = in.n,
                                  .in = in.per_sample(),
                                  .out = node.channels,
                                  .bias = forward && node.bias,
                                  .relu = forward && node.activation == Activation::kRelu});
}

// Where a product finds the weight, or leaves its gradient: a buffer of this step if the flat
// buffer has it in the canonical order and the kernels need their own.
struct Weight {
  float* stored = nullptr;
  int relaid = -1;
  WeightOrder order;

  float* at(const Addresses& addresses) const { return relaid < 0 ? stored : addresses.at(relaid); }
};

Weight weight_of(Recording& r, const Node& node, float* stored) {
  Weight weight{.stored = stored, .relaid = -1, .order = {}};
  if (find_segment(r, node, "weight")->layout != "canonical") return weight;
  const auto of_node = [&](const graph::Parameter& p) {
    return p.is_matrix() && &r.node(p.node) == &node;
  };
  const auto parameter = std::ranges::find_if(r.program.parameters, of_node);
  const auto order = weight_order(r.program.graph, *parameter);
  if (!order) return weight;
  weight.order = *order;
  weight.relaid = r.tape.new_floats(order->outputs * order->channels * order->cells);
  return weight;
}

Weight relay_weight(Recording& r, const Node& node) {
  const Weight weight = weight_of(r, node, weights_of(r, node, "weight"));
  if (weight.relaid < 0) return weight;
  r.tape.add({weight.relaid}, [=, &queue = r.queue](const Addresses& at) {
    transpose(queue, weight.stored, at.at(weight.relaid), weight.order.outputs,
              weight.order.channels, weight.order.cells);
  });
  return weight;
}

void record_forward(Recording& r, const Node& node, const StepBuffers& b) {
  const Product product = prepare(r, node, Pass::kForward);
  const Weight weight = relay_weight(r, node);
  const float* bias = weights_of(r, node, "bias");
  const int workspace = r.tape.new_buffer(static_cast<std::int64_t>(product.workspace));
  const int x = b.inputs[0];
  r.tape.add({x, weight.relaid, b.out, workspace}, [=, &queue = r.queue](const Addresses& at) {
    product.run({at.at(x), weight.at(at), at.at(b.out), bias}, at.at<void>(workspace), queue);
  });
  if (node.activation != Activation::kTanh) return;
  const std::int64_t count = node.shape.elements();
  r.tape.add({b.out}, [=, &queue = r.queue](const Addresses& at) {
    activate(queue, Activation::kTanh, at.at(b.out), at.at(b.out), count);
  });
}

void record_data(Recording& r, const Node& node, const StepBuffers& b) {
  const Product product = prepare(r, node, Pass::kData);
  const Weight weight = relay_weight(r, node);
  const int workspace = r.tape.new_buffer(static_cast<std::int64_t>(product.workspace));
  r.tape.add({b.d_y, weight.relaid, b.out, workspace}, [=, &queue = r.queue](const Addresses& at) {
    product.run({at.at(b.out), weight.at(at), at.at(b.d_y), nullptr}, at.at<void>(workspace),
                queue);
  });
}

void record_bias_gradient(Recording& r, const Node& node, const StepBuffers& b) {
  float* d_bias = gradients_of(r, node, "bias");
  if (d_bias == nullptr) return;
  const std::int64_t channels = node.shape.c;
  const std::int64_t rows = node.shape.elements() / channels;
  const int partial =
      r.tape.new_buffer(partial_sums(rows, channels) * static_cast<std::int64_t>(sizeof(double)));
  r.tape.add({b.d_y, partial}, [=, &queue = r.queue](const Addresses& at) {
    sum_channels(queue, at.at(b.d_y), rows, channels, at.at<double>(partial), d_bias);
  });
}

void record_weights(Recording& r, const Node& node, const StepBuffers& b) {
  const Product product = prepare(r, node, Pass::kWeights);
  const Weight weight = weight_of(r, node, gradients_of(r, node, "weight"));
  const int workspace = r.tape.new_buffer(static_cast<std::int64_t>(product.workspace));
  const int x = b.inputs[0];
  r.tape.add({x, b.d_y, weight.relaid, workspace}, [=, &queue = r.queue](const Addresses& at) {
    product.run({at.at(x), weight.at(at), at.at(b.d_y), nullptr}, at.at<void>(workspace), queue);
  });
  if (weight.relaid >= 0) {
    r.tape.add({weight.relaid}, [=, &queue = r.queue](const Addresses& at) {
      transpose(queue, at.at(weight.relaid), weight.stored, weight.order.outputs,
                weight.order.cells, weight.order.channels);
    });
  }
  record_bias_gradient(r, node, b);
}

}  // namespace

Pass pass_of(StepKind kind) {
  if (kind == StepKind::kForward) return Pass::kForward;
  return kind == StepKind::kBackwardWeights ? Pass::kWeights : Pass::kData;
}

Convolution convolution_of(const Node& node, const Shape& in, Pass pass) {
  const bool forward = pass == Pass::kForward;
  return {.pass = pass,
          .x = in,
          .y = node.shape,
          .kernel = node.kernel,
          .stride = node.stride,
          .pad = node.pad,
          .pad_after = node.pad_after(),
          .bias = forward && node.bias,
          .relu = forward && node.activation == Activation::kRelu};
}

void record_product(Recording& r, const Step& step, const StepBuffers& b) {
  const Node& node = r.node(step.node);
  switch (pass_of(step.kind)) {
    case Pass::kForward:
      return record_forward(r, node, b);
    case Pass::kData:
      return record_data(r, node, b);
    case Pass::kWeights:
      return record_weights(r, node, b);
  }
}

}  // namespace coxswain::backend::cuda
