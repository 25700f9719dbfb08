#pragma once

#include <span>
#include <string>

#include "trainer/graph/graph.h"
#include "trainer/graph/program.h"
#include "trainer/options/options.h"

namespace coxswain::graph {

enum class Mode { kTraining, kEvaluation };

// Gives every node its (N, C, H, W) for a batch of `batch_size`. Throws Error (65) naming the layer
// and both shapes when a window does not fit or the inputs of Add differ.
Graph infer_shapes(Graph graph, std::int64_t batch_size);

// Gives every node its DataType: the precision's everywhere but at the input and the logits.
Graph assign_types(Graph graph, Precision precision);

// Folds Relu and Tanh into the Conv2d, Dense, BatchNorm or Add before them (when that has no other
// reader), and drops Flatten before Dense, which reads (N, C, H, W) as it is.
Graph fuse(Graph graph);

// Orders the work: forward alone for evaluation; forward, loss gradient and backward for training.
Program differentiate(const Graph& graph, Mode mode);

// Marks the trainable tensors whose names begin with one of the prefixes. Throws Error (65) for a
// prefix of none of them, and when nothing is left to train.
Program freeze(Program program, std::span<const std::string> prefixes);

// All passes but freeze, in order.
Program compile(const Graph& graph, std::int64_t batch_size, Precision precision, Mode mode);

}  // namespace coxswain::graph
