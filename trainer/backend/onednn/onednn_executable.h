#pragma once

#include <memory>
#include <vector>

#include "trainer/backend/executable.h"
#include "trainer/backend/onednn/arena.h"
#include "trainer/backend/onednn/plan.h"

namespace coxswain::backend::onednn {

// What an executable shares with its backend, which outlives it.
struct Shared {
  OneDnnOptions options;
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  WeightLayouts layouts;
  Arena arena;
};

// Resource. A program recorded on a tape. Copies of weights in other orders or types are made by
// the steps that use them, so that parameters_changed() has nothing to do. An executable whose
// edges are looked at (fetch, store) computes all of them from then on.
class OneDnnExecutable : public Executable {
 public:
  OneDnnExecutable(Shared& shared, const graph::Program& program, Parameters& parameters);

  const graph::Program& program() const override { return program_; }
  void load(const Batch& batch) override;
  void run(int step_index) override;
  LossSums sums() const override { return state_.sums; }
  void parameters_changed() override {}
  std::vector<float> fetch(int edge) override;

  // Ignored for an edge that no later step uses: its memory may be another's by then.
  void store(int edge, std::span<const float> values) override;

 private:
  void record(Parameters& parameters);
  void bind();

  Shared& shared_;
  graph::Program program_;
  StepState state_;
  Tape tape_;
  std::vector<Tensor> edges_;
  std::vector<int> last_reads_;
  int left_out_ = -1;  // the edge of which only channel sums are computed while nobody looks
  std::int64_t bound_generation_ = -1;
  int next_step_ = 0;
};

}  // namespace coxswain::backend::onednn
