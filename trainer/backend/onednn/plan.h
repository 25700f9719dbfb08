#pragma once

#include <any>
#include <optional>
#include <string_view>
#include <vector>

#include "trainer/backend/executable.h"
#include "trainer/backend/onednn/layer_descriptors.h"
#include "trainer/backend/onednn/onednn_backend.h"
#include "trainer/backend/onednn/tape.h"
#include "trainer/backend/onednn/weight_layouts.h"
#include "trainer/backend/parameters.h"
#include "trainer/graph/program.h"

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

// A recording under way: turns the steps of a program into operations on a tape. Each step re-lays
// what it reads on its own, so that a step run alone gives what it gives in a whole pass.
struct Plan {
  const graph::Program& program;
  const OneDnnOptions& options;
  const WeightLayouts& layouts;
  Parameters& parameters;
  StepState& state;  // address kept by the recorded loops
  Tape& tape;
  std::vector<Tensor> edges;            // by edge, once its step is recorded
  std::vector<int> last_reads;          // by edge: the last step that uses its memory, -1 if none
  std::vector<std::any> kept;           // by node: what its forward step leaves for later ones
  std::vector<const Step*> sums_alone;  // by norm: the step of whose output it needs sums alone
  int step = 0;                         // being recorded

  const Node& node(int index) const { return program.graph.nodes[static_cast<std::size_t>(index)]; }
  const Node& input_of(const Node& n) const { return node(n.inputs[0]); }
  const Tensor& edge(int index) const { return edges[static_cast<std::size_t>(index)]; }

  // A node's own state, of a type of its operation's.
  template <typename T>
  T& keep(int index, T value) {
    return kept[static_cast<std::size_t>(index)].emplace<T>(std::move(value));
  }
  template <typename T>
  T& kept_of(int index) {
    return std::any_cast<T&>(kept[static_cast<std::size_t>(index)]);
  }
};

// The edges whose memory a step uses: what it reads, but for what a workspace of ours replaces.
std::vector<int> used_reads(const graph::Program& program, const Step& step);

void record_step(Plan& plan, const Step& step);

// The same values in another order or type: a copy made by a reorder, or `tensor` itself.
Tensor converted(Plan& plan, const Tensor& tensor, const Desc& wanted);
void copy(Plan& plan, const Tensor& from, const Tensor& to);

// Makes `tensor` the value of an edge, converted to the edge's type where it computed in another.
void deliver(Plan& plan, int edge, const Tensor& tensor);

// values = f(values)
void record_in_place(Plan& plan, const Tensor& values, const Eltwise& f);
// tanh, for kernels that can't apply it themselves.
void record_tanh(Plan& plan, const Tensor& values);

// A tensor like `desc` for the edge a step writes: the memory of `reused` when nobody reads that
// edge later.
Tensor output_in_place_of(Plan& plan, int reused, const Desc& desc);

// The node's parameter `suffix` ("weight", "bias", ...); its weights or gradients as they are
// stored, for weights under the dims that the kernel gives them.
std::optional<int> find_segment(const Plan& plan, const Node& node, std::string_view suffix);
const tensor::Segment& segment_of(const Plan& plan, const Node& node, std::string_view suffix);
float* weights_of(const Plan& plan, const tensor::Segment& segment);
float* gradients_of(const Plan& plan, const tensor::Segment& segment);
Tensor stored_weights(const Plan& plan, const tensor::Segment& segment, const Dims& dims);
// The node's weights as its products take them: as they are stored, or a copy rounded to fp16.
Tensor product_weights(Plan& plan, const Node& node, const Dims& dims);
Tensor stored_gradients(const Plan& plan, const tensor::Segment& segment, const Dims& dims);
Dims conv_weight_dims(const Plan& plan, const Node& node);

// d(input) of a convolution that only a BatchNorm with fixed gamma reads, itself without a gradient
// to give (MXNet's bn_data): nothing but its channel sums, beta's gradient, is needed. They follow
// from sums of d(output) over the window's taps, without the 3-channel convolution for which oneDNN
// has no good kernel.
bool needs_only_channel_sums(const Plan& plan, const Step& conv_data);
void record_channel_sums(Plan& plan, const Step& conv_data, float* sums);

}  // namespace coxswain::backend::onednn
