#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "trainer/graph/program.h"
#include "trainer/tensor/pixels.h"
#include "trainer/tensor/slice.h"

namespace coxswain::backend {

// What ranks give to each other in the midst of a pass. All ranks ask the same, in the same order.
class AllGather {
 public:
  virtual ~AllGather() = default;
  // Every rank's `own`, all of one size, in rank order, in the same memory. Waits for them, or, on
  // a device, lets it wait; valid until the next call.
  virtual tensor::Slice gather(const tensor::Slice& own) = 0;
};

// View. The rows of one step, as they are stored: the device makes floats of them. Must stay valid
// until the step's backward is over.
struct Batch {
  tensor::Pixels images;
  std::span<const std::int32_t> labels;      // (N)
  std::span<const std::int64_t> sample_ids;  // (N): key the random numbers of dropout
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  std::int64_t valid = 0;   // rows that count; the rest is padding (evaluation only)
  double global_count = 1;  // gradients are divided by it: samples of the whole step on all ranks
  // (N), where each row is mixed of two samples: the other one's label, and the share in [0, 1]
  // that the row's own has of the target. Empty: all.
  std::span<const std::int32_t> partner_labels = {};
  std::span<const float> shares = {};
  AllGather* ranks = nullptr;  // the other ranks, for norms that are joined; null: there are none
};

// Value. Sums over the valid rows of one forward pass.
struct LossSums {
  double loss = 0;
  std::int64_t correct = 0;  // top-1; of a mixed row, by the label of the greater share
  std::int64_t correct_top5 = 0;
  std::int64_t samples = 0;
};

// A program made ready on one device. See Backend for owners and lifetimes.
//
// A step is: load, run each step of the program in order (forward and backward below do it), then
// the optimizer changes the weights and every executable over the same parameters is told by
// parameters_changed(); private copies of weights (bf16, other layouts) are rewritten at the next
// forward. After load nothing allocates. What is asked is enqueued on the device: sums() alone
// waits for it.
class Executable {
 public:
  virtual ~Executable() = default;
  virtual const graph::Program& program() const = 0;
  virtual void load(const Batch& batch) = 0;
  virtual void run(int step_index) = 0;
  virtual LossSums sums() const = 0;  // of the forward pass just run
  // The same, into the control segment of the gradients (control.h), where they are.
  virtual void write_sums(const tensor::Slice& control) const;
  virtual void parameters_changed() = 0;

  // One edge in canonical fp32, for CheckedBackend and tests.
  virtual std::vector<float> fetch(int edge) = 0;
  virtual void store(int edge, std::span<const float> values) = 0;
};

// Throws Error when a batch does not fit a program: 65 for a label that the model has no class for,
// naming the sample; 70 for sizes.
void check(const graph::Program& program, const Batch& batch);

// Loads the batch and runs the forward steps.
void forward(Executable& executable, const Batch& batch);

// Called with Program::parameters [0, complete): the gradients that are final so far.
using OnGradients = std::function<void(int complete)>;

// Runs the backward steps. `on_gradients` is first called before any of them (statistics are
// complete after forward), then whenever more gradients are final.
void backward(Executable& executable, const OnGradients& on_gradients);

}  // namespace coxswain::backend
