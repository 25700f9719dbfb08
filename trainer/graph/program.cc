#include "trainer/graph/program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trainer/graph/operations.h"

namespace coxswain::graph {

std::string_view name_of(StepKind kind) {
  switch (kind) {
    case StepKind::kForward:
      return "forward";
    case StepKind::kLossGradient:
      return "loss-gradient";
    case StepKind::kJoinGradients:
      return "join-gradients";
    case StepKind::kBackwardWeights:
      return "backward-weights";
    case StepKind::kBackwardData:
      return "backward-data";
  }
  return "";
}

namespace {

std::string edge_names(const Program& program, const std::vector<int>& edges) {
  std::vector<std::string_view> names;
  for (const int edge : edges) names.push_back(program.edges[static_cast<std::size_t>(edge)].name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string step_text(const Program& program, const Step& step) {
  const Node& node = program.graph.nodes[static_cast<std::size_t>(step.node)];
  std::string text =
      fmt::format("{} {}: {}", name_of(step.kind), node.name, edge_names(program, step.reads));
  if (!step.writes.empty()) text += " -> " + edge_names(program, step.writes);
  if (step.kind == StepKind::kJoinGradients &&
      joined_activation(program, step) != Activation::kNone) {
    text += fmt::format("  derivative of {}", graph::name_of(joined_activation(program, step)));
  }
  std::vector<std::string_view> completes;
  for (const int p : step.completes)
    completes.push_back(program.parameters[static_cast<std::size_t>(p)].name);
  if (!completes.empty()) text += fmt::format("  completes {}", fmt::join(completes, ", "));
  return text + "\n";
}

std::string_view name_of(InitKind kind) {
  switch (kind) {
    case InitKind::kZero:
      return "zero";
    case InitKind::kOne:
      return "one";
    case InitKind::kNormal:
      return "normal";
    case InitKind::kUniform:
      return "uniform";
  }
  return "";
}

}  // namespace

Activation joined_activation(const Program& program, const Step& step) {
  const Node& node = program.graph.nodes[static_cast<std::size_t>(step.node)];
  if (step.reads.back() != step.node) return Activation::kNone;
  return operation(node.op).selects ? Activation::kRelu : node.activation;
}

std::string to_text(const Program& program) {
  std::string text = program.training ? "training\n" : "evaluation\n";
  text += "\nnodes\n" + to_text(program.graph);
  text += "\ngradient edges\n";
  for (std::size_t i = program.graph.nodes.size(); i < program.edges.size(); ++i) {
    const Edge& edge = program.edges[i];
    text += fmt::format("{} : {} {}\n", edge.name, tensor::to_text(edge.shape), name_of(edge.type));
  }
  text += "\nsteps\n";
  for (const Step& step : program.steps) text += step_text(program, step);
  text += "\nparameters\n";
  for (const Parameter& p : program.parameters) {
    text += fmt::format("{} {} {} {:.6g}\n", p.name, fmt::join(p.dims, "x"), name_of(p.init.kind),
                        p.init.scale);
  }
  return text;
}

}  // namespace coxswain::graph
