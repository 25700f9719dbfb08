#pragma once

#include <memory>
#include <optional>

#include "trainer/data/data_loader.h"
#include "trainer/train/step_plan.h"

namespace coxswain::train {

// Value. A place in training: what comes next.
struct Position {
  std::int64_t epoch = 0;
  data::EpochPlace place;
};

// Every micro-batch of one rank from a position on, in the order in which the loop asks for them.
// Those without rows too: a rank may have none for ever, and the search for some would not end.
class BatchSource {
 public:
  BatchSource(const data::SamplerOptions& sampler, const StepCut& cut, int rank, Position from,
              std::int64_t last_epoch)
      : sampler_(sampler), cut_(cut), rank_(rank), at_(from), last_epoch_(last_epoch) {}

  std::optional<data::BatchRequest> operator()();

 private:
  bool next_step();

  data::SamplerOptions sampler_;
  StepCut cut_;
  int rank_;
  Position at_;
  std::int64_t last_epoch_;
  std::shared_ptr<const data::EpochOrder> order_;
  std::int64_t order_epoch_ = -1;
  std::int64_t next_step_ = 0;  // of order_
  StepPlan plan_;
  std::size_t next_micro_ = 0;
};

}  // namespace coxswain::train
