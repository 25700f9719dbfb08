#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/data/data_loader.h"
#include "trainer/train/batch_source.h"
#include "trainer/train/executables.h"
#include "trainer/train/joined_norms.h"
#include "trainer/train/saver.h"
#include "trainer/train/strategy.h"
#include "trainer/train/timeline.h"
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
  std::unique_ptr<RankGather> ranks;             // where norms are of all ranks' rows
  std::unique_ptr<Saver> saver;                  // rank 0 with a checkpoint directory
  std::unique_ptr<Timeline> timeline;            // where one is asked for
  std::unique_ptr<TimedDataset> timed_training;  // with it
  std::unique_ptr<data::BadSampleLog> skipped;   // where bad samples are passed over
  std::unique_ptr<data::DataLoader> loader;
};

// Anew, from the newest checkpoint, or from where the others already are. Throws as train() does.
// The loader is made after it, by make_loader.
Started start_up(const TrainOptions& options, const Collaborators& with);

std::unique_ptr<data::DataLoader> make_loader(const TrainOptions& options,
                                              const data::Dataset& training,
                                              data::DataLoader::NextRequest next_request, int depth,
                                              data::BadSampleLog* skipped);

// What is told in the end of the samples that this rank passed over.
void tell_of_skipped(const Started& now, Observer& observer);

data::SamplerOptions sampler_of(const TrainOptions& options, const checkpoint::State& state,
                                const data::Dataset& training);
// Where in the data a state is.
Position position_of(const checkpoint::State& state, const data::Dataset& training);
// The state's epoch is over: all of `order`'s steps are done.
void advance_epoch(checkpoint::State& state, const data::EpochOrder& order);

// By the place in the data, whatever the size of the steps that led there.
bool is_complete(const TrainOptions& options, const checkpoint::State& state);

// What is trained on from this place on, and where in its epoch the place is.
data::EpochOrder order_from(const TrainOptions& options, const checkpoint::State& state,
                            const data::Dataset& training);

}  // namespace coxswain::train
