#pragma once

#include <vector>

#include "trainer/backend/executable.h"
#include "trainer/backend/reference/kernels.h"
#include "trainer/tensor/parameter_buffer.h"

namespace coxswain::backend::reference {

// Resource. Every edge has its own memory, so that any can be fetched after the step.
class ReferenceExecutable : public Executable {
 public:
  ReferenceExecutable(const graph::Program& program, tensor::ParameterBuffer& parameters);
  const graph::Program& program() const override { return program_; }
  void load(const Batch& batch) override;
  void run(int step_index) override;
  LossSums sums() const override { return sums_; }
  void parameters_changed() override { weights_changed_ = true; }
  std::vector<float> fetch(int edge) override;
  void store(int edge, std::span<const float> values) override;

 private:
  using Node = graph::Node;

  // Where a node's tensors lie in the buffer: indices of segments, -1 for none.
  struct Segments {
    int weight = -1;  // gamma of a BatchNorm
    int bias = -1;    // its beta
    int running_mean = -1;
    int running_variance = -1;
  };

  // A BatchNorm's values of this batch, kept for backward: the buffer's are being summed by then.
  struct SavedMoments {
    std::vector<double> mean;
    std::vector<double> variance;
  };

  void forward(int index, const graph::Step& step);
  void batch_norm_forward(int index, In x, Out y);
  void join(const graph::Step& step);
  void backward_weights(int index, const graph::Step& step);
  void backward_data(int index, const graph::Step& step);
  void batch_norm_backward(int index, const graph::Step& step);

  const Node& node(int index) const {
    return program_.graph.nodes[static_cast<std::size_t>(index)];
  }
  const Shape& input_shape(const Node& n) const { return node(n.inputs[0]).shape; }
  Window window(const Node& n) const;
  BatchNorm norm(int index);
  Dropout dropout_of(const Node& n) const;
  bool computes_in_bfloat16(const Node& n) const;

  Out edge(int index) { return edges_[static_cast<std::size_t>(index)]; }
  In read(const Node& n, int index);  // rounded to what the node computes in
  In parameter(int segment) const;
  In weights(const Node& n, int segment) const;  // rounded likewise
  Out gradient(int segment);
  void round_weights();

  graph::Program program_;
  tensor::ParameterBuffer& parameters_;
  std::vector<std::vector<float>> edges_;
  std::vector<Segments> segments_;      // of each node
  std::vector<SavedMoments> moments_;   // of each node
  std::vector<float> rounded_input_;    // the input edge in bf16, for programs that compute in it
  std::vector<float> rounded_weights_;  // the buffer's weights in bf16, likewise
  bool weights_changed_ = true;
  Batch batch_;
  LossSums sums_;
};

}  // namespace coxswain::backend::reference
