#pragma once

#include <vector>

#include "trainer/backend/executable.h"
#include "trainer/backend/parameters.h"
#include "trainer/backend/reference/operations.h"

namespace coxswain::backend::reference {

// Resource. Every edge has its own memory, so that any can be fetched after the step.
class ReferenceExecutable : public Executable {
 public:
  ReferenceExecutable(const graph::Program& program, Parameters& parameters);
  const graph::Program& program() const override { return program_; }
  void load(const Batch& batch) override;
  void run(int step_index) override;
  LossSums sums() const override { return sums_; }
  void parameters_changed() override { weights_changed_ = true; }
  std::vector<float> fetch(int edge) override;
  void store(int edge, std::span<const float> values) override;

 private:
  using Node = graph::Node;

  // What belongs to a node from the start, and what its forward step leaves for backward.
  struct NodeState {
    std::vector<NodeParameter> parameters;
    std::vector<double> kept;
  };

  std::vector<NodeParameter> parameters_of(int index);
  void compute(const graph::Step& step);
  void join(const graph::Step& step);

  const Node& node(int index) const {
    return program_.graph.nodes[static_cast<std::size_t>(index)];
  }
  bool computes_narrow(const Node& n) const;
  Out edge(int index) { return edges_[static_cast<std::size_t>(index)]; }
  In read(const Node& n, int index);  // rounded to what the node computes in
  void round_weights();

  graph::Program program_;
  Parameters& parameters_;
  std::vector<std::vector<float>> edges_;
  std::vector<NodeState> nodes_;
  const tensor::DataType narrow_;       // of the program
  std::vector<float> rounded_input_;    // the input edge in it, for programs that compute in it
  std::vector<float> rounded_weights_;  // the buffer's weights, likewise
  bool weights_changed_ = true;
  Batch batch_;
  LossSums sums_;
};

}  // namespace coxswain::backend::reference
