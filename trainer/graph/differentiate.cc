#include <fmt/format.h>

#include <algorithm>

#include "trainer/graph/operations.h"
#include "trainer/graph/passes.h"

namespace coxswain::graph {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

bool is_statistic(const Parameter& p) { return p.kind == SegmentKind::kStatistic; }

// Statistics in forward order, then trainable tensors from the last node to the first: the order of
// backward.
std::vector<Parameter> buffer_order(const Graph& graph) {
  std::vector<Parameter> result;
  std::ranges::copy_if(parameters(graph), std::back_inserter(result), is_statistic);
  for (int node = static_cast<int>(graph.nodes.size()) - 1; node >= 0; --node) {
    std::ranges::copy_if(parameters(graph, node), std::back_inserter(result),
                         [](const Parameter& p) { return !is_statistic(p); });
  }
  return result;
}

// Writes a Program node by node: forward, then backward over the same nodes in reverse.
class Differentiation {
 public:
  Differentiation(const Graph& graph, Mode mode) : readers_(reader_counts(graph)) {
    program_.graph = graph;
    program_.training = mode == Mode::kTraining;
    program_.parameters = buffer_order(graph);
    for (const Node& node : graph.nodes)
      program_.edges.push_back({node.name, node.shape, node.type});
    program_.gradient_edges.assign(graph.nodes.size(), -1);
    contributions_.resize(graph.nodes.size());
    gradient_type_ = narrow_type(graph);
  }

  Program run() && {
    forward();
    program_.first_backward = static_cast<int>(program_.steps.size());
    if (program_.training) backward();
    return std::move(program_);
  }

 private:
  const Node& node(int index) const { return program_.graph.nodes[at(index)]; }

  void forward() {
    const int loss = static_cast<int>(program_.graph.nodes.size()) - 1;
    for (int i = 1; i <= loss; ++i) {
      Step step{StepKind::kForward, i, node(i).inputs, {i}, {}};
      if (i == loss) step.writes.clear();
      if (program_.training) step.completes = parameters_of(i, /*statistics=*/true);
      program_.steps.push_back(std::move(step));
    }
  }

  void backward() {
    find_nodes_with_gradient();
    const int loss = static_cast<int>(program_.graph.nodes.size()) - 1;
    const int logits = node(loss).inputs[0];
    if (!has_gradient_[at(logits)]) return;
    program_.steps.push_back(
        {StepKind::kLossGradient, loss, {logits}, {contribute(loss, logits)}, {}});
    for (int i = loss - 1; i > 0; --i) {
      if (has_gradient_[at(i)]) backward(i);
    }
  }

  void backward(int i) {
    const int gradient = join(i);
    program_.gradient_edges[at(i)] = gradient;
    const Node& n = node(i);
    if (operation(n.op).passes_gradient) {
      for (const int input : n.inputs) {
        if (has_gradient_[at(input)]) contributions_[at(input)].push_back(gradient);
      }
      return;
    }
    if (operation(n.op).each_input) return to_each_input(i, gradient);
    const int input = n.inputs[0];
    const bool weights_apart = operation(n.op).weights_apart;
    if (weights_apart || !has_gradient_[at(input)]) {
      std::vector<int> reads =
          weights_apart ? std::vector{input, gradient} : data_reads(i, gradient);
      program_.steps.push_back(
          {StepKind::kBackwardWeights, i, std::move(reads), {}, parameters_of(i, false)});
    }
    if (!has_gradient_[at(input)]) return;
    Step step{StepKind::kBackwardData, i, data_reads(i, gradient), {contribute(i, input)}, {}};
    if (!weights_apart) step.completes = parameters_of(i, false);
    program_.steps.push_back(std::move(step));
  }

  void to_each_input(int i, int gradient) {
    for (std::size_t input = 0; input < node(i).inputs.size(); ++input) {
      const int to = node(i).inputs[input];
      if (!has_gradient_[at(to)]) continue;
      program_.steps.push_back({StepKind::kBackwardData,
                                i,
                                reads_for(i, input, gradient),
                                {contribute(i, to)},
                                {},
                                static_cast<int>(input)});
    }
  }

  std::vector<int> reads_for(int i, std::size_t input, int gradient) const {
    if (!operation(node(i).op).reads_others) return data_reads(i, gradient);
    std::vector<int> reads = node(i).inputs;
    reads.erase(reads.begin() + static_cast<std::ptrdiff_t>(input));
    reads.push_back(gradient);
    return reads;
  }

  // What kBackwardData of a node needs: input, output, d(output), the first two as its rule says.
  std::vector<int> data_reads(int i, int gradient) const {
    const Node& n = node(i);
    const Operation& o = operation(n.op);
    const bool differs = o.fuses == Fuses::kWithin && n.activation != Activation::kNone;
    std::vector<int> reads;
    if (o.reads_input) reads.push_back(n.inputs[0]);
    if (o.reads_output || differs) reads.push_back(i);
    reads.push_back(gradient);
    return reads;
  }

  // The edge of d(output) of node i: its only contribution, or a new edge where there is work to
  // do.
  int join(int i) {
    const std::vector<int>& parts = contributions_[at(i)];
    if (!needs_join(i)) return parts.front();
    Step step{
        StepKind::kJoinGradients, i, parts, {new_edge(i, fmt::format("d({})", node(i).name))}, {}};
    if (takes_derivative(i)) step.reads.push_back(i);
    program_.steps.push_back(step);
    return step.writes.front();
  }

  bool needs_join(int i) const { return readers_[at(i)] > 1 || takes_derivative(i); }

  // Whether a node takes the derivative of the Relu before it, at its own output.
  bool takes_relu_before(int i) const {
    if (!operation(node(i).op).selects) return false;
    const int input = node(i).inputs[0];
    return node(input).activation == Activation::kRelu &&
           operation(node(input).op).fuses != Fuses::kWithin && readers_[at(input)] == 1;
  }

  bool takes_derivative(int i) const {
    if (takes_relu_before(i)) return true;
    if (node(i).activation == Activation::kNone || operation(node(i).op).fuses == Fuses::kWithin) {
      return false;
    }
    for (int reader = i + 1; reader < static_cast<int>(program_.graph.nodes.size()); ++reader) {
      if (!node(reader).inputs.empty() && node(reader).inputs[0] == i &&
          takes_relu_before(reader)) {
        return false;
      }
    }
    return true;
  }

  // A new edge for what `reader` adds to d(output) of node `to`.
  int contribute(int reader, int to) {
    const std::string name = needs_join(to)
                                 ? fmt::format("d({})<-{}", node(to).name, node(reader).name)
                                 : fmt::format("d({})", node(to).name);
    const int edge = new_edge(to, name);
    contributions_[at(to)].push_back(edge);
    return edge;
  }

  int new_edge(int like, std::string name) {
    program_.edges.push_back({std::move(name), node(like).shape, gradient_type_});
    return static_cast<int>(program_.edges.size()) - 1;
  }

  std::vector<int> parameters_of(int i, bool statistics) const {
    std::vector<int> result;
    for (std::size_t p = 0; p < program_.parameters.size(); ++p) {
      const Parameter& parameter = program_.parameters[p];
      if (parameter.node == i && is_statistic(parameter) == statistics)
        result.push_back(static_cast<int>(p));
    }
    return result;
  }

  void find_nodes_with_gradient() {
    has_gradient_.assign(program_.graph.nodes.size(), false);
    for (const Parameter& p : program_.parameters) has_gradient_[at(p.node)] = true;
    for (std::size_t i = 0; i < program_.graph.nodes.size(); ++i) {
      for (const int input : program_.graph.nodes[i].inputs) {
        if (has_gradient_[at(input)]) has_gradient_[i] = true;
      }
    }
  }

  Program program_;
  std::vector<int> readers_;
  std::vector<bool> has_gradient_;  // of a node: its output depends on a trainable tensor
  std::vector<std::vector<int>> contributions_;  // to d(output) of each node, one a reader
  DataType gradient_type_ = DataType::kFloat32;
};

}  // namespace

Program differentiate(const Graph& graph, Mode mode) { return Differentiation(graph, mode).run(); }

}  // namespace coxswain::graph
