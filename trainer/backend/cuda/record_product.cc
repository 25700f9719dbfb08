#include <algorithm>
#include <optional>

#include "trainer/backend/cuda/recording.h"
#include "trainer/backend/cuda/weight_layout.h"

namespace coxswain::backend::cuda {

namespace {

using graph::Node;
using graph::Op;
using graph::Step;
using graph::StepKind;

// cuBLASLt leaves what is to be wide as it is summed, beside narrow operands; cuDNN has no engine
// for that.
Types types_of(const graph::Program& program, const Node& node) {
  const DataType x = graph::product_type(program.graph, node);
  if (node.op != Op::kDense) return {.x = x, .y = x, .bias = x, .d_w = x};
  return {.x = x, .y = node.type, .bias = node.type, .d_w = DataType::kFloat32};
}

// The engine that was named may be another device's, or refuse this number of rows.
Product prepare_convolution(Recording& r, const Step& step) {
  const Convolution convolution = convolution_of(r.program, step);
  const auto named = r.algorithms.find(operation_name(r.program, step));
  if (named != r.algorithms.end()) {
    if (auto product = r.products.prepare_with(named->second, convolution)) return *product;
  }
  return r.products.prepare(convolution);
}

Product prepare(Recording& r, const Step& step) {
  const Node& node = r.node(step.node);
  if (node.op != Op::kDense) return prepare_convolution(r, step);
  const Shape& in = r.input_of(node).shape;
  const Pass pass = pass_of(step.kind);
  const bool forward = pass == Pass::kForward;
  return r.products.prepare(Dense{.pass = pass,
                                  .rows = in.n,
                                  .in = in.per_sample(),
                                  .out = node.channels,
                                  .bias = forward && node.bias,
                                  .relu = forward && node.activation == Activation::kRelu,
                                  .types = types_of(r.program, node)});
}

// Where a product finds a parameter, or leaves its gradient: in the flat buffer, or in a buffer of
// this step if the product wants another order or type.
struct Place {
  float* stored = nullptr;
  int buffer = -1;

  void* at(const Addresses& addresses) const {
    return buffer < 0 ? stored : addresses.at<void>(buffer);
  }
};

// Nothing where the flat buffer has the weight in the kernels' own order.
std::optional<WeightOrder> order_to_change(const Recording& r, const Node& node) {
  if (find_segment(r, node, "weight")->layout != "canonical") return std::nullopt;
  const auto of_node = [&](const graph::Parameter& p) {
    return p.is_matrix() && &r.node(p.node) == &node;
  };
  return weight_order(r.program.graph, *std::ranges::find_if(r.program.parameters, of_node));
}

int new_weight(Recording& r, const WeightOrder& order) {
  return r.tape.new_array(order.outputs * order.channels * order.cells, DataType::kFloat32);
}

Place rounded(Recording& r, const Place& from, std::int64_t count, DataType type) {
  if (type == DataType::kFloat32) return from;
  const int to = r.tape.new_array(count, type);
  r.tape.add({from.buffer, to}, [=, &queue = r.queue](const Addresses& at) {
    convert(queue, {from.at(at), DataType::kFloat32}, at.at(to), count);
  });
  return {nullptr, to};
}

Place place_of_weight(Recording& r, const Node& node) {
  Place weight{weights_of(r, node, "weight"), -1};
  if (const auto order = order_to_change(r, node)) {
    weight.buffer = new_weight(r, *order);
    r.tape.add({weight.buffer}, [=, &queue = r.queue](const Addresses& at) {
      transpose(queue, {weight.stored, DataType::kFloat32}, at.at(weight.buffer), order->outputs,
                order->channels, order->cells);
    });
  }
  return rounded(r, weight, find_segment(r, node, "weight")->elements(),
                 types_of(r.program, node).x);
}

Place place_of_bias(Recording& r, const Node& node) {
  const Place bias{weights_of(r, node, "bias"), -1};
  if (bias.stored == nullptr) return bias;
  return rounded(r, bias, node.channels, types_of(r.program, node).bias);
}

void record_product_forward(Recording& r, const Step& step, const StepBuffers& b) {
  const Node& node = r.node(step.node);
  const Product product = prepare(r, step);
  const Place weight = place_of_weight(r, node);
  const Place bias = place_of_bias(r, node);
  const int workspace = r.tape.new_buffer(static_cast<std::int64_t>(product.workspace));
  const std::int64_t count = node.shape.elements();
  const DataType type = types_of(r.program, node).y;
  const bool widens = type != node.type;
  const int x = b.inputs[0];
  const int y = widens ? r.tape.new_array(count, type) : b.out;
  r.tape.add({x, weight.buffer, bias.buffer, y, workspace},
             [=, &queue = r.queue](const Addresses& at) {
               product.run({at.at<void>(x), weight.at(at), at.at<void>(y), bias.at(at)},
                           at.at<void>(workspace), queue);
             });
  if (widens) {
    r.tape.add({y, b.out}, [=, &queue = r.queue](const Addresses& at) {
      convert(queue, at.at(y), at.at(b.out), count);
    });
  }
  if (node.activation != Activation::kTanh) return;
  r.tape.add({b.out}, [=, &queue = r.queue](const Addresses& at) {
    activate(queue, Activation::kTanh, at.at(b.out), at.at(b.out), count);
  });
}

void record_product_data(Recording& r, const Step& step, const StepBuffers& b) {
  const Product product = prepare(r, step);
  const Place weight = place_of_weight(r, r.node(step.node));
  const int workspace = r.tape.new_buffer(static_cast<std::int64_t>(product.workspace));
  r.tape.add({b.d_y, weight.buffer, b.out, workspace}, [=, &queue = r.queue](const Addresses& at) {
    product.run({at.at<void>(b.out), weight.at(at), at.at<void>(b.d_y), nullptr},
                at.at<void>(workspace), queue);
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

void record_product_weights(Recording& r, const Step& step, const StepBuffers& b) {
  const Node& node = r.node(step.node);
  const Product product = prepare(r, step);
  const auto order = order_to_change(r, node);
  const Place wide{gradients_of(r, node, "weight"), order ? new_weight(r, *order) : -1};
  const std::int64_t count = find_segment(r, node, "weight")->elements();
  const DataType type = types_of(r.program, node).d_w;
  const bool widens = type != DataType::kFloat32;
  const Place d_weight = widens ? Place{nullptr, r.tape.new_array(count, type)} : wide;
  const int workspace = r.tape.new_buffer(static_cast<std::int64_t>(product.workspace));
  const int x = b.inputs[0];
  r.tape.add({x, b.d_y, d_weight.buffer, workspace}, [=, &queue = r.queue](const Addresses& at) {
    product.run({at.at<void>(x), d_weight.at(at), at.at<void>(b.d_y), nullptr},
                at.at<void>(workspace), queue);
  });
  if (widens) {
    r.tape.add({d_weight.buffer, wide.buffer}, [=, &queue = r.queue](const Addresses& at) {
      convert(queue, at.at(d_weight.buffer), {wide.at(at), DataType::kFloat32}, count);
    });
  }
  if (order) {
    r.tape.add({wide.buffer}, [=, &queue = r.queue](const Addresses& at) {
      transpose(queue, at.at(wide.buffer), {wide.stored, DataType::kFloat32}, order->outputs,
                order->cells, order->channels);
    });
  }
  record_bias_gradient(r, node, b);
}

}  // namespace

Pass pass_of(StepKind kind) {
  if (kind == StepKind::kForward) return Pass::kForward;
  return kind == StepKind::kBackwardWeights ? Pass::kWeights : Pass::kData;
}

bool is_convolution(const graph::Program& program, const Step& step) {
  return step.kind != StepKind::kJoinGradients &&
         program.graph.nodes[static_cast<std::size_t>(step.node)].op == Op::kConv2d;
}

std::string operation_name(const graph::Program& program, const Step& step) {
  const Pass pass = pass_of(step.kind);
  const char* words = pass == Pass::kForward ? "forward" : pass == Pass::kData ? "data" : "weights";
  return program.graph.nodes[static_cast<std::size_t>(step.node)].name + "." + words;
}

Convolution convolution_of(const graph::Program& program, const Step& step) {
  const auto node_of = [&](int i) -> const Node& {
    return program.graph.nodes[static_cast<std::size_t>(i)];
  };
  const Node& node = node_of(step.node);
  const Pass pass = pass_of(step.kind);
  const bool forward = pass == Pass::kForward;
  return {.pass = pass,
          .x = node_of(node.inputs[0]).shape,
          .y = node.shape,
          .kernel = node.kernel,
          .stride = node.stride,
          .pad = node.pad,
          .pad_after = node.pad_after(),
          .groups = node.groups,
          .bias = forward && node.bias,
          .relu = forward && node.activation == Activation::kRelu,
          .types = types_of(program, node)};
}

void record_product(Recording& r, const Step& step, const StepBuffers& b) {
  switch (pass_of(step.kind)) {
    case Pass::kForward:
      return record_product_forward(r, step, b);
    case Pass::kData:
      return record_product_data(r, step, b);
    case Pass::kWeights:
      return record_product_weights(r, step, b);
  }
}

}  // namespace coxswain::backend::cuda
