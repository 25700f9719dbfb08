#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "trainer/backend/backend.h"
#include "trainer/graph/passes.h"

namespace coxswain::test {

using backend::Backend;
using backend::Batch;
using backend::Executable;
using backend::LossSums;

struct RunOptions {
  std::int64_t rows = 3;
  std::int64_t valid = -1;  // -1: all rows
  Precision precision = Precision::kFp32;
  graph::Mode mode = graph::Mode::kTraining;
  int num_slots = 0;
  backend::LayoutKind layout = backend::LayoutKind::kNative;
  std::uint64_t seed = 1;
};

// Resource. A model compiled on a backend, with weights, images and labels drawn from the seed.
// Pixels that are near each other differ. Weights are graph::initialise's, and everything that
// starts as zero or one is moved a little off it.
class ModelRun {
 public:
  ModelRun(Backend& on, const graph::Graph& model, const RunOptions& options);

  // Gives a pixel, and all of its channel that are stored as the same byte, another value.
  void set_image(std::size_t index, float value);
  LossSums forward();
  void backward();

  const tensor::Segment& segment(const std::string& name) const;
  std::span<float> weights(const std::string& name);  // as they are stored
  // One tensor's gradients (or, for a statistic, its batch's values) in canonical order.
  std::vector<float> gradients(const std::string& name);

  Backend& on;
  graph::Program program;
  std::unique_ptr<backend::Parameters> parameters;
  std::unique_ptr<Executable> executable;
  std::vector<std::uint8_t> bytes;
  std::vector<float> table;
  std::vector<float> images;  // (N, C, H, W): what the bytes become
  std::vector<std::int32_t> labels;
  std::vector<std::int64_t> sample_ids;
  Batch batch;
};

// The edge's index in the program; throws when there is none of this name.
int edge_named(const graph::Program& program, const std::string& name);

// The names of the operations that none of these models runs in training, forward and backward.
std::vector<std::string_view> operations_not_run(const std::vector<graph::Graph>& models);

}  // namespace coxswain::test
