#include "trainer/backend/onednn/plan.h"

#include <fmt/format.h>

#include "trainer/backend/onednn/operations.h"
#include "trainer/backend/onednn/vector_loops.h"
#include "trainer/contract/error.h"
#include "trainer/tensor/host_span.h"

namespace coxswain::backend::onednn {

namespace {

void record(Plan& plan, const Step& step) {
  const Recorder& recorder = recorder_of(plan.node(step.node).op);
  switch (step.kind) {
    case StepKind::kForward:
      return recorder.forward(plan, step);
    case StepKind::kJoinGradients:
      return record_join(plan, step);
    case StepKind::kBackwardWeights:
      return recorder.backward_weights(plan, step);
    case StepKind::kLossGradient:
    case StepKind::kBackwardData:
      return recorder.backward_data(plan, step);
  }
}

Desc with_dims(const Plan& plan, const tensor::Segment& segment, const Dims& dims) {
  if (segment.layout == "canonical") return plain(dims, Type::f32);
  return plan.layouts.find(segment);
}

// In the order in which they lie, padding included.
void record_rounding(Plan& plan, const Tensor& tensor) {
  const auto count = static_cast<std::int64_t>(tensor.desc.get_size() / sizeof(float));
  plan.tape.add({tensor.buffer}, [memory = tensor.memory, count](const Addresses&) {
    round_to_halves(static_cast<float*>(memory.get_data_handle()), count);
  });
}

}  // namespace

std::vector<int> used_reads(const graph::Program& program, const Step& step) {
  const Node& node = program.graph.nodes[static_cast<std::size_t>(step.node)];
  const bool backward =
      step.kind == StepKind::kBackwardData || step.kind == StepKind::kBackwardWeights;
  const auto rule = recorder_of(node.op).used_reads;
  return backward && rule != nullptr ? rule(node, step) : step.reads;
}

void record_step(Plan& plan, const Step& step) {
  plan.tape.begin_step();
  for (const int read : used_reads(plan.program, step)) plan.tape.touch(plan.edge(read).buffer);
  try {
    record(plan, step);
  } catch (const dnnl::error& error) {
    refuse_layer(plan.program, step.node, error);
  }
  std::vector<int> written;
  for (const int write : step.writes) {
    written.push_back(plan.edge(write).buffer);
    const DataType type = plan.program.edges[static_cast<std::size_t>(write)].type;
    if (type == DataType::kFloat16) record_rounding(plan, plan.edge(write));
  }
  plan.tape.end_step(written);
}

void copy(Plan& plan, const Tensor& from, const Tensor& to) {
  const dnnl::reorder::primitive_desc desc(plan.tape.engine(), from.desc, plan.tape.engine(),
                                           to.desc, user_scratchpad());
  plan.tape.add(dnnl::reorder(desc), desc.scratchpad_desc(),
                {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

Tensor converted(Plan& plan, const Tensor& tensor, const Desc& wanted) {
  if (tensor.desc == wanted) return tensor;
  const Tensor result = plan.tape.new_tensor(wanted);
  copy(plan, tensor, result);
  return result;
}

void deliver(Plan& plan, int edge, const Tensor& tensor) {
  const graph::Edge& e = plan.program.edges[static_cast<std::size_t>(edge)];
  const bool same_type = type_of(tensor.desc) == to_type(e.type);
  plan.edges[static_cast<std::size_t>(edge)] =
      same_type ? tensor : converted(plan, tensor, plain(to_dims(e.shape), to_type(e.type)));
}

void record_in_place(Plan& plan, const Tensor& values, const Eltwise& f) {
  const EltwiseForward kernel =
      eltwise_forward(plan.tape.engine(), f, values.desc, user_scratchpad());
  plan.tape.add(dnnl::eltwise_forward(kernel), kernel.scratchpad_desc(),
                {{DNNL_ARG_SRC, values}, {DNNL_ARG_DST, values}});
}

void record_tanh(Plan& plan, const Tensor& values) {
  record_in_place(plan, values, {dnnl::algorithm::eltwise_tanh});
}

Tensor output_in_place_of(Plan& plan, int reused, const Desc& desc) {
  const Tensor& old = plan.edge(reused);
  const bool free = plan.last_reads[static_cast<std::size_t>(reused)] == plan.step && reused != 0;
  return free && old.desc == desc ? old : plan.tape.new_tensor(desc);
}

std::optional<int> find_segment(const Plan& plan, const Node& node, std::string_view suffix) {
  return plan.parameters.layout().find(fmt::format("{}.{}", node.name, suffix));
}

const tensor::Segment& segment_of(const Plan& plan, const Node& node, std::string_view suffix) {
  const std::optional<int> found = find_segment(plan, node, suffix);
  if (!found) {
    throw Error(
        ExitCode::kInternal,
        fmt::format("[onednn] layer {}: its {} is not in the parameter layout", node.name, suffix));
  }
  return plan.parameters.layout().segments[static_cast<std::size_t>(*found)];
}

float* weights_of(const Plan& plan, const tensor::Segment& segment) {
  return tensor::host_span(plan.parameters.weights(segment)).data();
}

float* gradients_of(const Plan& plan, const tensor::Segment& segment) {
  return tensor::host_span(plan.parameters.gradients(segment)).data();
}

Tensor stored_weights(const Plan& plan, const tensor::Segment& segment, const Dims& dims) {
  return plan.tape.outside(with_dims(plan, segment, dims), weights_of(plan, segment));
}

Tensor product_weights(Plan& plan, const Node& node, const Dims& dims) {
  const Tensor stored = stored_weights(plan, segment_of(plan, node, "weight"), dims);
  if (graph::product_type(plan.program.graph, node) != DataType::kFloat16) return stored;
  const Tensor rounded = plan.tape.new_tensor(stored.desc);
  copy(plan, stored, rounded);
  record_rounding(plan, rounded);
  return rounded;
}

Tensor stored_gradients(const Plan& plan, const tensor::Segment& segment, const Dims& dims) {
  return plan.tape.outside(with_dims(plan, segment, dims), gradients_of(plan, segment));
}

Dims conv_weight_dims(const Plan& plan, const Node& node) {
  return conv_weight_dims(node, plan.input_of(node).shape);
}

}  // namespace coxswain::backend::onednn
