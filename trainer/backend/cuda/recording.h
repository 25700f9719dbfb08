#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trainer/backend/algorithms.h"
#include "trainer/backend/cuda/products.h"
#include "trainer/backend/cuda/tape.h"
#include "trainer/backend/executable.h"
#include "trainer/backend/parameters.h"
#include "trainer/graph/program.h"

namespace coxswain::backend::cuda {

// View. What a step reads of its batch, on the device.
struct DeviceBatch {
  const StepInputs* inputs = nullptr;
  const std::int64_t* sample_ids = nullptr;
  Targets targets;
  const std::uint8_t* bytes = nullptr;  // (N, H, W, C)
  const float* table = nullptr;         // (C, 256)
};

// Of an edge on the device: that of the program, but images are as narrow as what is made of them.
DataType type_of(const graph::Program& program, int edge);

// A recording under way: turns the steps of a program into work on a tape. Each step re-lays what
// it reads on its own, so that a step run alone gives what it gives in a whole pass.
struct Recording {
  const graph::Program& program;
  Parameters& parameters;
  Products& products;
  const Algorithms& algorithms;  // of convolutions, by operation_name()
  const Queue& queue;            // address kept by the recorded work
  Tape& tape;
  DeviceBatch batch;
  AllGather* const& ranks;  // of the batch; address kept, too
  DeviceSums* sums;
  std::vector<int> edges;    // by edge: its buffer
  std::vector<int> moments;  // by node: of a norm

  const graph::Node& node(int index) const {
    return program.graph.nodes[static_cast<std::size_t>(index)];
  }
  const graph::Node& input_of(const graph::Node& n) const { return node(n.inputs[0]); }
};

// The buffers of the edges that a step reads and writes; -1 where it has none.
struct StepBuffers {
  std::vector<int> inputs;
  int y = -1;
  int d_y = -1;
  int out = -1;
};

void record_step(Recording& recording, const graph::Step& step);

// By family, each in a file of its own.
void record_product(Recording& recording, const graph::Step& step, const StepBuffers& buffers);
Pass pass_of(graph::StepKind kind);
bool is_convolution(const graph::Program& program, const graph::Step& step);
std::string operation_name(const graph::Program& program, const graph::Step& step);
Convolution convolution_of(const graph::Program& program, const graph::Step& step);
void record_norm(Recording& recording, const graph::Step& step, const StepBuffers& buffers);
void record_pool(Recording& recording, const graph::Step& step, const StepBuffers& buffers);

// A node's own parameter on the device; null where it has none of this name.
const tensor::Segment* find_segment(const Recording& recording, const graph::Node& node,
                                    std::string_view suffix);
float* weights_of(const Recording& recording, const graph::Node& node, std::string_view suffix);
float* gradients_of(const Recording& recording, const graph::Node& node, std::string_view suffix);

}  // namespace coxswain::backend::cuda
