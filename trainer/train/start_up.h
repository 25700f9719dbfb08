#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/data/data_loader.h"
#include "trainer/train/executables.h"
#include "trainer/train/saver.h"
#include "trainer/train/strategy.h"
#include "trainer/train/training_loop.h"

namespace coxswain::train {

// Value. A training made ready on one rank: all ranks agree, every batch size is prepared.
struct Started {
  StepCut cut;
  checkpoint::State state;
  Course course;
  RunInfo info;
  bool already_complete = false;

  std::unique_ptr<backend::Parameters> parameters;
  std::unique_ptr<Executables> executables;
  std::unique_ptr<Strategy> strategy;
  std::unique_ptr<Saver> saver;  // rank 0 with a checkpoint directory
  std::unique_ptr<data::DataLoader> loader;
};

// Anew or from the newest checkpoint. Throws as train() does.
Started start_up(const TrainOptions& options, const Collaborators& with);

// By the place in the data, whatever the size of the steps that led there.
bool is_complete(const TrainOptions& options, const checkpoint::State& state);

// What is trained on from this place on, and where in its epoch the place is.
data::EpochOrder order_from(const TrainOptions& options, const checkpoint::State& state,
                            const data::Dataset& training);

std::int64_t evaluation_batch(const TrainOptions& options);

}  // namespace coxswain::train
