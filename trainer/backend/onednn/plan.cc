#include "trainer/backend/onednn/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/contract/error.h"

namespace coxswain::backend::onednn {

namespace {

using graph::Op;

void record_forward(Plan& plan, const Step& step) {
  switch (plan.node(step.node).op) {
    case Op::kConv2d:
      return record_conv_forward(plan, step);
    case Op::kDense:
      return record_dense_forward(plan, step);
    case Op::kBatchNorm:
      return record_norm_forward(plan, step);
    case Op::kRelu:
    case Op::kTanh:
    case Op::kGelu:
      return record_eltwise_forward(plan, step);
    case Op::kAdd:
      return record_add(plan, step);
    case Op::kMaxPool:
    case Op::kAvgPool:
    case Op::kGlobalAvgPool:
      return record_pool_forward(plan, step);
    case Op::kFlatten:
      return record_flatten(plan, step);
    case Op::kDropout:
      return record_dropout_forward(plan, step);
    case Op::kSoftmaxCrossEntropy:
      return record_loss_forward(plan, step);
    case Op::kInput:
      return;
  }
}

void record_backward(Plan& plan, const Step& step) {
  const bool data = step.kind == StepKind::kBackwardData;
  switch (plan.node(step.node).op) {
    case Op::kConv2d:
      return data ? record_conv_data(plan, step) : record_conv_weights(plan, step);
    case Op::kDense:
      return data ? record_dense_data(plan, step) : record_dense_weights(plan, step);
    case Op::kBatchNorm:
      return record_norm_backward(plan, step);
    case Op::kRelu:
    case Op::kTanh:
    case Op::kGelu:
      return record_eltwise_backward(plan, step);
    case Op::kMaxPool:
    case Op::kAvgPool:
    case Op::kGlobalAvgPool:
      return record_pool_backward(plan, step);
    case Op::kFlatten:
      return record_flatten(plan, step);
    case Op::kDropout:
      return record_dropout_backward(plan, step);
    case Op::kAdd:
    case Op::kSoftmaxCrossEntropy:
    case Op::kInput:
      return;  // no such steps
  }
}

void record(Plan& plan, const Step& step) {
  switch (step.kind) {
    case StepKind::kForward:
      return record_forward(plan, step);
    case StepKind::kLossGradient:
      return record_loss_gradient(plan, step);
    case StepKind::kJoinGradients:
      return record_join(plan, step);
    case StepKind::kBackwardWeights:
    case StepKind::kBackwardData:
      return record_backward(plan, step);
  }
}

Desc with_dims(const Plan& plan, const tensor::Segment& segment, const Dims& dims) {
  if (segment.layout == "canonical") return plain(dims, Type::f32);
  return plan.layouts.find(segment);
}

}  // namespace

std::vector<int> used_reads(const graph::Program& program, const Step& step) {
  const Node& node = program.graph.nodes[static_cast<std::size_t>(step.node)];
  const bool backward =
      step.kind == StepKind::kBackwardData || step.kind == StepKind::kBackwardWeights;
  if (backward && node.op == Op::kMaxPool) return {step.reads.back()};
  if (backward && node.op == Op::kBatchNorm && node.activation == graph::Activation::kRelu) {
    return {step.reads.front(), step.reads.back()};
  }
  return step.reads;
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
  for (const int write : step.writes) written.push_back(plan.edge(write).buffer);
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

Tensor stored_weights(const Plan& plan, const tensor::Segment& segment, const Dims& dims) {
  return plan.tape.outside(with_dims(plan, segment, dims), plan.parameters.weights(segment).data());
}

Tensor stored_gradients(const Plan& plan, const tensor::Segment& segment, const Dims& dims) {
  return plan.tape.outside(with_dims(plan, segment, dims),
                           plan.parameters.gradients(segment).data());
}

}  // namespace coxswain::backend::onednn
