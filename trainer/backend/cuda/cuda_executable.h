#pragma once

#include <memory>
#include <vector>

#include "trainer/backend/cuda/device.h"
#include "trainer/backend/cuda/recording.h"
#include "trainer/backend/cuda/step_graphs.h"
#include "trainer/backend/executable.h"

namespace coxswain::backend::cuda {

// What an executable shares with its backend, which outlives it.
struct Shared {
  Stream stream = make_stream();
  Queue queue;
  StepGraphs steps{stream.get()};
  Products products;
  Algorithms algorithms;  // of the next executables
  Arena arena;
};

// Resource. A program recorded on a tape. Activations are (N, H, W, C) in the shared arena; the
// batch comes over pinned memory.
class CudaExecutable final : public Executable {
 public:
  CudaExecutable(Shared& shared, const graph::Program& program, Parameters& parameters);
  ~CudaExecutable() override { shared_.steps.forget(); }

  const graph::Program& program() const override { return program_; }
  void load(const Batch& batch) override;
  void run(int step_index) override;
  LossSums sums() const override;
  void write_sums(const tensor::Slice& control) const override;
  void parameters_changed() override {}
  std::vector<float> fetch(int edge) override;

  // Ignored for an edge that no later step reads: its memory may be another's by then.
  void store(int edge, std::span<const float> values) override;

 private:
  void record(Parameters& parameters);
  void bind();
  const tensor::Shape& shape_of(int edge) const {
    return program_.edges[static_cast<std::size_t>(edge)].shape;
  }
  Array array_of(int edge) const {
    return tape_.addresses().at(edges_[static_cast<std::size_t>(edge)]);
  }
  bool asks(std::uint64_t what, std::uint64_t of) const;

  Shared& shared_;
  graph::Program program_;
  Tape tape_;
  DeviceMemory input_;  // the batch, as it comes
  DeviceMemory sums_;
  PinnedMemory host_sums_{sizeof(DeviceSums)};
  DeviceBatch batch_;
  AllGather* ranks_ = nullptr;
  std::vector<int> edges_;
  std::vector<int> last_reads_;
  int bound_generation_ = -1;
  int next_step_ = 0;
};

}  // namespace coxswain::backend::cuda
