#pragma once

#include "trainer/train/start_up.h"

namespace coxswain::train {

// Value. Which rank is in which step.
struct AtStep {
  int rank = 0;
  std::int64_t step = 0;
};

// Kills the process where the options say so.
void fail_here(const TrainOptions& options, const AtStep& at, Phase phase);

// The loader's next batch through the model, and its gradients to the strategy, without the loss
// scale under which they were made. `count`: their divisor; `stop`: this rank was asked to.
void run_micro_batch(const TrainOptions& options, Started& now, const MicroBatch& micro,
                     double count, bool stop, const AtStep& at);

}  // namespace coxswain::train
