#pragma once

#include <cstdint>

#include "trainer/comm/communicator.h"
#include "trainer/data/bad_samples.h"
#include "trainer/data/dataset.h"
#include "trainer/data/preprocessor.h"
#include "trainer/train/executables.h"
#include "trainer/train/step_plan.h"

namespace coxswain::train {

// Value. Over every sample of the set, each scored exactly once, equal on all ranks.
struct Scores {
  std::int64_t samples = 0;
  double loss = 0;      // mean
  double accuracy = 0;  // top-1
  double top5 = 0;
};

struct EvaluationOptions {
  std::int64_t batch =
      256;  // rows a forward pass; the last one is padded and the padding not scored
  data::Preprocessing preprocessing;  // applied without chance
  int data_workers = 1;
  data::BadSampleLog* skipped = nullptr;  // as in data::LoaderOptions
};

// Each rank (or virtual shard) scores one contiguous cut; the sums travel by the reduction of
// `cut`, so that with virtual shards the result's bits do not depend on the world size.
Scores evaluate(Executables& executables, const data::Dataset& dataset,
                const EvaluationOptions& options, comm::Communicator& communicator,
                const StepCut& cut);

}  // namespace coxswain::train
