#include "trainer/backend/reference/reference_executable.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/contract/error.h"
#include "trainer/tensor/host_span.h"

namespace coxswain::backend::reference {

namespace {

using graph::StepKind;
using tensor::DataType;
using tensor::host_span;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

void round_all(DataType type, std::span<float> values) {
  if (type == DataType::kFloat32) return;
  for (float& value : values) value = tensor::round_to(type, value);
}

const tensor::Segment& segment_of(const tensor::ParameterLayout& layout, const std::string& name) {
  const std::optional<int> index = layout.find(name);
  if (!index || layout.segments[at(*index)].layout != "canonical") {
    throw Error(ExitCode::kInternal,
                fmt::format("[backend] the parameter buffer has no {} in canonical layout", name));
  }
  return layout.segments[at(*index)];
}

}  // namespace

ReferenceExecutable::ReferenceExecutable(const graph::Program& program, Parameters& parameters)
    : program_(program), parameters_(parameters), narrow_(graph::narrow_type(program.graph)) {
  for (const graph::Edge& e : program.edges) edges_.emplace_back(e.shape.elements());
  if (narrow_ != DataType::kFloat32) {
    rounded_input_.resize(edges_.front().size());
    rounded_weights_.resize(static_cast<std::size_t>(parameters.layout().size()));
  }
  for (int n = 0; n < static_cast<int>(program.graph.nodes.size()); ++n) {
    nodes_.push_back({parameters_of(n), {}});
  }
}

std::vector<NodeParameter> ReferenceExecutable::parameters_of(int index) {
  const Node& n = node(index);
  std::vector<NodeParameter> result;
  for (const graph::Parameter& p : graph::parameters(program_.graph, index)) {
    const tensor::Segment& s = segment_of(parameters_.layout(), p.name);
    const bool rounded = p.kind == tensor::SegmentKind::kWeight && computes_narrow(n);
    const In values = rounded ? In(rounded_weights_)
                                    .subspan(static_cast<std::size_t>(s.offset),
                                             static_cast<std::size_t>(s.stored))
                              : In(host_span(parameters_.weights(s)));
    result.push_back(
        {p.name.substr(n.name.size() + 1), values, host_span(parameters_.gradients(s))});
  }
  return result;
}

void ReferenceExecutable::load(const Batch& batch) {
  check(program_, batch);
  batch_ = batch;
  std::vector<float> images(edges_.front().size());
  tensor::to_floats(batch.images, program_.graph.input().shape, images);
  store(0, images);
  if (weights_changed_) round_weights();
}

void ReferenceExecutable::round_weights() {
  weights_changed_ = false;
  if (rounded_weights_.empty()) return;
  std::ranges::copy(host_span(parameters_.weights()), rounded_weights_.begin());
  round_all(narrow_, rounded_weights_);
}

std::vector<float> ReferenceExecutable::fetch(int index) { return edges_[at(index)]; }

void ReferenceExecutable::store(int index, std::span<const float> values) {
  std::ranges::copy(values, edges_[at(index)].begin());
  round_all(program_.edges[at(index)].type, edge(index));
  if (index != 0 || rounded_input_.empty()) return;
  std::ranges::copy(values, rounded_input_.begin());
  round_all(narrow_, rounded_input_);
}

void ReferenceExecutable::run(int step_index) {
  const graph::Step& step = program_.steps[at(step_index)];
  if (step.kind == StepKind::kJoinGradients) {
    join(step);
  } else {
    compute(step);
  }
  for (const int written : step.writes) round_all(program_.edges[at(written)].type, edge(written));
}

void ReferenceExecutable::compute(const graph::Step& step) {
  const Node& n = node(step.node);
  NodeState& state = nodes_[at(step.node)];
  Work work{.node = n,
            .in = node(n.inputs[at(step.input)]).shape,
            .first_channel = graph::first_channel(program_.graph, n, step.input),
            .parameters = state.parameters,
            .training = program_.training,
            .batch = &batch_,
            .kept = &state.kept,
            .sums = &sums_};
  for (const int read_edge : step.reads) {
    if (read_edge == step.node) {
      work.y = edge(read_edge);
    } else if (read_edge < static_cast<int>(nodes_.size())) {
      work.inputs.push_back(read(n, read_edge));
    } else {
      work.d_y = edge(read_edge);
    }
  }
  if (!step.writes.empty()) work.out = edge(step.writes[0]);
  const Loops& loops = loops_of(n.op);
  if (step.kind == StepKind::kForward) {
    loops.forward(work);
    activate(n.activation, work.out);
  } else if (step.kind == StepKind::kBackwardWeights) {
    loops.backward_weights(work);
  } else {
    loops.backward_data(work);
  }
}

void ReferenceExecutable::join(const graph::Step& step) {
  const Activation activation = graph::joined_activation(program_, step);
  const std::size_t parts = step.reads.size() - (activation == Activation::kNone ? 0 : 1);
  const Out sum = edge(step.writes[0]);
  std::ranges::copy(edge(step.reads[0]), sum.begin());
  for (std::size_t part = 1; part < parts; ++part) {
    std::ranges::transform(sum, edge(step.reads[part]), sum.begin(), std::plus<>());
  }
  if (activation != Activation::kNone)
    multiply_by_derivative(activation, edge(step.reads.back()), sum);
}

bool ReferenceExecutable::computes_narrow(const Node& n) const {
  return graph::product_type(program_.graph, n) != DataType::kFloat32;
}

In ReferenceExecutable::read(const Node& n, int index) {
  if (index == 0 && computes_narrow(n)) return rounded_input_;
  return edges_[at(index)];
}

In Work::values(std::string_view suffix) const {
  const auto found = std::ranges::find(parameters, suffix, &NodeParameter::suffix);
  return found == parameters.end() ? In() : found->values;
}

Out Work::gradients(std::string_view suffix) const {
  const auto found = std::ranges::find(parameters, suffix, &NodeParameter::suffix);
  return found == parameters.end() ? Out() : found->gradients;
}

}  // namespace coxswain::backend::reference
