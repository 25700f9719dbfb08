#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "trainer/backend/cuda/step_graphs.h"
#include "trainer/tensor/memory.h"

namespace coxswain::backend::cuda {

// Resource. The memory of one device, on one stream. Snapshots leave over a stream of their own: a
// copy on the device is made in order, and goes to pinned memory while the stream goes on.
class CudaMemory final : public tensor::Memory {
 public:
  CudaMemory(const Queue& queue, StepGraphs& steps);

  tensor::Place place() const override { return tensor::Place::kDevice; }
  tensor::Buffer allocate(std::int64_t floats) override;
  void fill(const tensor::Slice& to, float value) override;
  void copy(const tensor::Slice& from, const tensor::Slice& to) override;
  void add(const tensor::Slice& into, const tensor::Slice& from) override;
  void multiply(const tensor::Slice& of, float by) override;
  void write(std::span<const float> from, const tensor::Slice& to) override;
  Snapshot snapshot(const tensor::Slice& from) override;

 private:
  struct Copy;
  struct Pool;

  Queue queue_;
  StepGraphs& steps_;
  DeviceMemory factor_{sizeof(float), "a factor"};
  std::shared_ptr<Pool> pool_;
};

}  // namespace coxswain::backend::cuda
