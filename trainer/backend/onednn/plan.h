#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/backend/executable.h"
#include "trainer/backend/onednn/layer_descriptors.h"
#include "trainer/backend/onednn/onednn_backend.h"
#include "trainer/backend/onednn/tape.h"
#include "trainer/backend/onednn/weight_layouts.h"
#include "trainer/graph/program.h"
#include "trainer/tensor/parameter_buffer.h"

namespace coxswain::backend::onednn {

using graph::Node;
using graph::Step;
using graph::StepKind;
using tensor::DataType;

// What the loops of an executable read of the step under way.
struct StepState {
  Batch batch;
  LossSums sums;
  bool observed = false;  // someone looks at edges: all of them are computed
};

// What the steps of one node leave for its later ones.
struct NodeState {
  std::optional<ConvKernels> conv;
  std::optional<LanesConvolution> lanes;  // instead of `conv`
  const Step* sums_alone =
      nullptr;  // BatchNorm: the step whose output is needed as channel sums alone
  std::optional<DenseKernels> dense;
  std::optional<NormForward> norm;
  std::optional<PoolForward> pool;
  std::optional<EltwiseForward> eltwise;
  Tensor workspace;  // BatchNorm: mask of its relu; MaxPool: positions; Dropout: what was kept
  Tensor mean;       // BatchNorm
  Tensor variance;
  Tensor scale_shift;  // BatchNorm: gamma, then beta
};

// A recording under way: turns the steps of a program into operations on a tape. Each step re-lays
// what it reads on its own, so that a step run alone gives what it gives in a whole pass.
struct Plan {
  const graph::Program& program;
  const OneDnnOptions& options;
  const WeightLayouts& layouts;
  tensor::ParameterBuffer& parameters;
  StepState& state;  // address kept by the recorded loops
  Tape& tape;
  std::vector<Tensor> edges;    // by edge, once its step is recorded
  std::vector<int> last_reads;  // by edge: the last step that uses its memory, -1 if none
  std::vector<NodeState> nodes;
  int step = 0;  // being recorded

  const Node& node(int index) const { return program.graph.nodes[static_cast<std::size_t>(index)]; }
  const Node& input_of(const Node& n) const { return node(n.inputs[0]); }
  const Tensor& edge(int index) const { return edges[static_cast<std::size_t>(index)]; }
  NodeState& state_of(int index) { return nodes[static_cast<std::size_t>(index)]; }
};

// The edges whose memory a step uses: what it reads, but for what a workspace of ours replaces.
std::vector<int> used_reads(const graph::Program& program, const Step& step);

void record_step(Plan& plan, const Step& step);

// The same values in another order or type: a copy made by a reorder, or `tensor` itself.
Tensor converted(Plan& plan, const Tensor& tensor, const Desc& wanted);
void copy(Plan& plan, const Tensor& from, const Tensor& to);

// Makes `tensor` the value of an edge, converted to the edge's type where it computed in another.
void deliver(Plan& plan, int edge, const Tensor& tensor);

// A tensor like `desc` for the edge a step writes: the memory of `reused` when nobody reads that
// edge later.
Tensor output_in_place_of(Plan& plan, int reused, const Desc& desc);

// The node's parameter `suffix` ("weight", "bias", ...); its weights or gradients as they are
// stored, for weights under the dims that the kernel gives them.
std::optional<int> find_segment(const Plan& plan, const Node& node, std::string_view suffix);
const tensor::Segment& segment_of(const Plan& plan, const Node& node, std::string_view suffix);
Tensor stored_weights(const Plan& plan, const tensor::Segment& segment, const Dims& dims);
Tensor stored_gradients(const Plan& plan, const tensor::Segment& segment, const Dims& dims);

void record_conv_forward(Plan& plan, const Step& step);
void record_conv_weights(Plan& plan, const Step& step);
void record_conv_data(Plan& plan, const Step& step);
void record_lanes_forward(Plan& plan, const Step& step);
void record_lanes_weights(Plan& plan, const Step& step);
void record_lanes_data(Plan& plan, const Step& step);
void record_lanes_pool_forward(Plan& plan, const Step& step);
void record_lanes_pool_backward(Plan& plan, const Step& step);

// d(input) of a convolution that only a BatchNorm with fixed gamma reads, itself without a gradient
// to give (MXNet's bn_data): nothing but its channel sums, beta's gradient, is needed. They follow
// from sums of d(output) over the window's taps, without the 3-channel convolution for which oneDNN
// has no good kernel.
bool needs_only_channel_sums(const Plan& plan, const Step& conv_data);
void record_channel_sums(Plan& plan, const Step& conv_data, float* sums);

void record_dense_forward(Plan& plan, const Step& step);
void record_dense_weights(Plan& plan, const Step& step);
void record_dense_data(Plan& plan, const Step& step);
void record_norm_forward(Plan& plan, const Step& step);
void record_norm_backward(Plan& plan, const Step& step);
void record_pool_forward(Plan& plan, const Step& step);
void record_pool_backward(Plan& plan, const Step& step);
void record_eltwise_forward(Plan& plan, const Step& step);
void record_eltwise_backward(Plan& plan, const Step& step);
void record_add(Plan& plan, const Step& step);
void record_join(Plan& plan, const Step& step);
void record_flatten(Plan& plan, const Step& step);
void record_dropout_forward(Plan& plan, const Step& step);
void record_dropout_backward(Plan& plan, const Step& step);
void record_loss_forward(Plan& plan, const Step& step);
void record_loss_gradient(Plan& plan, const Step& step);

}  // namespace coxswain::backend::onednn
