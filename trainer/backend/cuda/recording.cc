#include "trainer/backend/cuda/recording.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/contract/error.h"
#include "trainer/tensor/device_span.h"
#include "trainer/tensor/philox.h"

namespace coxswain::backend::cuda {

namespace {

using graph::Node;
using graph::Op;
using graph::Step;
using graph::StepKind;

StepBuffers buffers_of(const Recording& r, const Step& step) {
  StepBuffers buffers;
  const auto nodes = static_cast<int>(r.program.graph.nodes.size());
  const bool forward = step.kind == StepKind::kForward;
  for (const int edge : step.reads) {
    const int buffer = r.edges[static_cast<std::size_t>(edge)];
    if (!forward && edge == step.node) {
      buffers.y = buffer;
    } else if (edge < nodes) {
      buffers.inputs.push_back(buffer);
    } else {
      buffers.d_y = buffer;
    }
  }
  if (!step.writes.empty()) buffers.out = r.edges[static_cast<std::size_t>(step.writes[0])];
  return buffers;
}

// out = the sum of `parts`, then the activation, or its derivative at `y`.
void record_sum(Recording& r, std::vector<int> parts, Activation activation, int y, int out,
                std::int64_t count) {
  std::vector<int> all = parts;
  all.insert(all.end(), {y, out});
  r.tape.add(all, [=, &queue = r.queue](const Addresses& at) {
    std::size_t next = 0;
    while (next < parts.size()) {
      Parts some;
      if (next > 0) some.from[static_cast<std::size_t>(some.count++)] = at.at(out).data;
      while (next < parts.size() && some.count < Parts::kMost)
        some.from[static_cast<std::size_t>(some.count++)] = at.at(parts[next++]).data;
      const bool last = next == parts.size();
      join(queue, some, last ? activation : Activation::kNone, last ? at.at(y) : Array(),
           at.at(out), count);
    }
  });
}

void record_join(Recording& r, const Step& step) {
  const Activation activation = graph::joined_activation(r.program, step);
  std::vector<int> parts;
  for (const int edge : step.reads) parts.push_back(r.edges[static_cast<std::size_t>(edge)]);
  int y = -1;
  if (activation != Activation::kNone) {
    y = parts.back();
    parts.pop_back();
  }
  const graph::Edge& out = r.program.edges[static_cast<std::size_t>(step.writes[0])];
  record_sum(r, parts, activation, y, r.edges[static_cast<std::size_t>(step.writes[0])],
             out.shape.elements());
}

void record_activation(Recording& r, const Step& step, const StepBuffers& b,
                       Activation activation) {
  const std::int64_t count = r.node(step.node).shape.elements();
  if (step.kind == StepKind::kForward) {
    r.tape.add({b.inputs[0], b.out}, [=, &queue = r.queue](const Addresses& at) {
      activate(queue, activation, at.at(b.inputs[0]), at.at(b.out), count);
    });
    return;
  }
  r.tape.add({b.y, b.d_y, b.out}, [=, &queue = r.queue](const Addresses& at) {
    activate_backward(queue, activation, at.at(b.y), at.at(b.d_y), at.at(b.out), count);
  });
}

void record_gelu(Recording& r, const Step& step, const StepBuffers& b) {
  const std::int64_t count = r.node(step.node).shape.elements();
  if (step.kind == StepKind::kForward) {
    r.tape.add({b.inputs[0], b.out}, [=, &queue = r.queue](const Addresses& at) {
      gelu(queue, at.at(b.inputs[0]), at.at(b.out), count);
    });
    return;
  }
  r.tape.add({b.inputs[0], b.d_y, b.out}, [=, &queue = r.queue](const Addresses& at) {
    gelu_backward(queue, at.at(b.inputs[0]), at.at(b.d_y), at.at(b.out), count);
  });
}

void record_curve(Recording& r, const Step& step, const StepBuffers& b) {
  const Node& node = r.node(step.node);
  const std::int64_t count = node.shape.elements();
  const Curve wanted{node.op, node.low, node.high};
  if (step.kind == StepKind::kForward) {
    r.tape.add({b.inputs[0], b.out}, [=, &queue = r.queue](const Addresses& at) {
      curve(queue, wanted, at.at(b.inputs[0]), at.at(b.out), count);
    });
    return;
  }
  const int given = b.y >= 0 ? b.y : b.inputs[0];
  r.tape.add({given, b.d_y, b.out}, [=, &queue = r.queue](const Addresses& at) {
    curve_backward(queue, wanted, at.at(given), at.at(b.d_y), at.at(b.out), count);
  });
}

void record_multiply(Recording& r, const Step& step, const StepBuffers& b) {
  const Node& node = r.node(step.node);
  const Shape& shape = node.shape;
  const Factors by{.pixels = shape.h * shape.w,
                   .channels = shape.c,
                   .of_pixels = r.node(node.inputs[1]).shape == shape};
  const bool forward = step.kind == StepKind::kForward;
  const int values = forward ? b.inputs[0] : b.d_y;
  const int other = forward ? b.inputs[1] : b.inputs[0];
  const std::int64_t count =
      forward ? shape.elements()
              : r.node(node.inputs[static_cast<std::size_t>(step.input)]).shape.elements();
  const bool sums = count != shape.elements();
  r.tape.add({values, other, b.out}, [=, &queue = r.queue](const Addresses& at) {
    const auto compute = sums ? sum_products : multiply;
    compute(queue, by, at.at(values), at.at(other), at.at(b.out), count);
  });
}

void record_concat(Recording& r, const Step& step, const StepBuffers& b) {
  const Node& node = r.node(step.node);
  const std::int64_t pixels = node.shape.n * node.shape.h * node.shape.w;
  const auto record_part = [&](int input, int part) {
    const std::int64_t channels = r.node(node.inputs[static_cast<std::size_t>(input)]).shape.c;
    const Channels in_whole{node.shape.c, graph::first_channel(r.program.graph, node, input)};
    const Channels alone{channels, 0};
    const bool forward = step.kind == StepKind::kForward;
    const int whole = forward ? b.out : b.d_y;
    r.tape.add({whole, part}, [=, &queue = r.queue](const Addresses& at) {
      if (forward) {
        copy_channels(queue, at.at(part), alone, at.at(whole), in_whole, channels, pixels);
      } else {
        copy_channels(queue, at.at(whole), in_whole, at.at(part), alone, channels, pixels);
      }
    });
  };
  if (step.kind != StepKind::kForward) return record_part(step.input, b.out);
  for (std::size_t i = 0; i < b.inputs.size(); ++i) record_part(static_cast<int>(i), b.inputs[i]);
}

// What is flat is in the order (C, H, W).
void record_flatten(Recording& r, const Step& step, const StepBuffers& b) {
  const Shape in = r.input_of(r.node(step.node)).shape;
  const bool forward = step.kind == StepKind::kForward;
  const int from = forward ? b.inputs[0] : b.d_y;
  const std::int64_t pixels = in.h * in.w;
  r.tape.add({from, b.out}, [=, &queue = r.queue](const Addresses& at) {
    if (forward) {
      transpose(queue, at.at(from), at.at(b.out), in.n, pixels, in.c);
    } else {
      transpose(queue, at.at(from), at.at(b.out), in.n, in.c, pixels);
    }
  });
}

void record_dropout(Recording& r, const Step& step, const StepBuffers& b) {
  const Node& node = r.node(step.node);
  const int from = step.kind == StepKind::kForward ? b.inputs[0] : b.d_y;
  const Shape shape = node.shape;
  if (!r.program.training) {
    const std::int64_t bytes = shape.elements() * tensor::size_of(r.tape.type_of(b.out));
    r.tape.add({from, b.out}, [=, &queue = r.queue](const Addresses& at) {
      check(cudaMemcpyAsync(at.at<void>(b.out), at.at<void>(from), static_cast<std::size_t>(bytes),
                            cudaMemcpyDeviceToDevice, queue.stream),
            "copying on the device");
    });
    return;
  }
  const std::uint32_t stream = tensor::stream_of(node.name);
  r.tape.add({from, b.out}, [=, &queue = r.queue, batch = r.batch,
                             rate = node.rate](const Addresses& at) {
    dropout(queue, batch.inputs, batch.sample_ids, stream, rate, shape, at.at(from), at.at(b.out));
  });
}

void record_loss(Recording& r, const Step& step, const StepBuffers& b) {
  const Node& node = r.node(step.node);
  const Shape logits = r.input_of(node).shape;
  const float smoothing = node.label_smoothing;
  if (step.kind == StepKind::kForward) {
    const int rows = r.tape.new_buffer(2 * logits.n * static_cast<std::int64_t>(sizeof(double)));
    r.tape.add({b.inputs[0], rows}, [=, &queue = r.queue, batch = r.batch,
                                     sums = r.sums](const Addresses& at) {
      softmax_cross_entropy(queue, batch.inputs, batch.targets, logits.n, logits.c, smoothing,
                            at.at<float>(b.inputs[0]), at.at<double>(rows), sums);
    });
    return;
  }
  r.tape.add({b.inputs[0], b.out}, [=, &queue = r.queue, batch = r.batch](const Addresses& at) {
    softmax_cross_entropy_gradient(queue, batch.inputs, batch.targets, logits.n, logits.c,
                                   smoothing, at.at<float>(b.inputs[0]), at.at(b.out));
  });
}

void record_operation(Recording& r, const Step& step, const StepBuffers& b) {
  const Node& node = r.node(step.node);
  switch (node.op) {
    case Op::kInput:
      return;
    case Op::kConv2d:
    case Op::kDense:
      return record_product(r, step, b);
    case Op::kBatchNorm:
      return record_norm(r, step, b);
    case Op::kRelu:
      return record_activation(r, step, b, Activation::kRelu);
    case Op::kTanh:
      return record_activation(r, step, b, Activation::kTanh);
    case Op::kGelu:
      return record_gelu(r, step, b);
    case Op::kSigmoid:
    case Op::kSilu:
    case Op::kHardSwish:
    case Op::kHardSigmoid:
    case Op::kClip:
      return record_curve(r, step, b);
    case Op::kAdd:
      return record_sum(r, b.inputs, node.activation, -1, b.out, node.shape.elements());
    case Op::kMultiply:
      return record_multiply(r, step, b);
    case Op::kConcat:
      return record_concat(r, step, b);
    case Op::kMaxPool:
    case Op::kAvgPool:
    case Op::kGlobalAvgPool:
      return record_pool(r, step, b);
    case Op::kFlatten:
      return record_flatten(r, step, b);
    case Op::kDropout:
      return record_dropout(r, step, b);
    case Op::kSoftmaxCrossEntropy:
      return record_loss(r, step, b);
  }
}

void record_kernels(Recording& r, const Step& step) {
  if (step.kind == StepKind::kJoinGradients) return record_join(r, step);
  record_operation(r, step, buffers_of(r, step));
}

// Kernels have operands of one type. The logits are float32 beside narrow ones: where that is not
// the kernels' own, as it is of products and the loss, the step is computed in float32. So is a sum
// of so many that it is made in parts, which are not to be rounded.
bool needs_float32(const Recording& r, const Step& step) {
  const Op op = r.node(step.node).op;
  const bool joins = step.kind == StepKind::kJoinGradients;
  if ((joins || op == Op::kAdd) && step.reads.size() > Parts::kMost) return true;
  if (!joins && (op == Op::kConv2d || op == Op::kDense || op == Op::kSoftmaxCrossEntropy))
    return false;
  std::vector<int> edges = step.reads;
  edges.insert(edges.end(), step.writes.begin(), step.writes.end());
  const auto differs = [&](int edge) {
    return type_of(r.program, edge) != type_of(r.program, edges.front());
  };
  return std::ranges::any_of(edges, differs);
}

void record_convert(Recording& r, int from, int to, std::int64_t count) {
  r.tape.add({from, to}, [=, &queue = r.queue](const Addresses& at) {
    convert(queue, at.at(from), at.at(to), count);
  });
}

void record_in_float32(Recording& r, const Step& step) {
  const std::vector<int> buffers = r.edges;
  const auto count_of = [&](int edge) {
    return r.program.edges[static_cast<std::size_t>(edge)].shape.elements();
  };
  const auto is_narrow = [&](int edge) { return type_of(r.program, edge) != DataType::kFloat32; };
  const auto widen = [&](int edge) {
    return r.edges[static_cast<std::size_t>(edge)] =
               r.tape.new_array(count_of(edge), DataType::kFloat32);
  };
  for (const int edge : step.reads) {
    if (is_narrow(edge))
      record_convert(r, buffers[static_cast<std::size_t>(edge)], widen(edge), count_of(edge));
  }
  for (const int edge : step.writes) {
    if (is_narrow(edge)) widen(edge);
  }
  record_kernels(r, step);
  for (const int edge : step.writes) {
    const auto i = static_cast<std::size_t>(edge);
    if (is_narrow(edge)) record_convert(r, r.edges[i], buffers[i], count_of(edge));
  }
  r.edges = buffers;
}

}  // namespace

DataType type_of(const graph::Program& program, int edge) {
  return edge == 0 ? graph::narrow_type(program.graph)
                   : program.edges[static_cast<std::size_t>(edge)].type;
}

void record_step(Recording& r, const Step& step) {
  std::vector<int> written;
  for (const int edge : step.reads) r.tape.touch(r.edges[static_cast<std::size_t>(edge)]);
  for (const int edge : step.writes) written.push_back(r.edges[static_cast<std::size_t>(edge)]);
  if (needs_float32(r, step)) {
    record_in_float32(r, step);
  } else {
    record_kernels(r, step);
  }
  r.tape.end_step(written);
}

const tensor::Segment* find_segment(const Recording& r, const Node& node, std::string_view suffix) {
  const auto found = r.parameters.layout().find(fmt::format("{}.{}", node.name, suffix));
  return found ? &r.parameters.layout().segments[static_cast<std::size_t>(*found)] : nullptr;
}

float* weights_of(const Recording& r, const Node& node, std::string_view suffix) {
  const tensor::Segment* segment = find_segment(r, node, suffix);
  return segment == nullptr ? nullptr : tensor::device_span(r.parameters.weights(*segment)).data();
}

float* gradients_of(const Recording& r, const Node& node, std::string_view suffix) {
  const tensor::Segment* segment = find_segment(r, node, suffix);
  return segment == nullptr ? nullptr
                            : tensor::device_span(r.parameters.gradients(*segment)).data();
}

}  // namespace coxswain::backend::cuda
