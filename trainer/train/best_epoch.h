#pragma once

#include <cstdint>
#include <string>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/train/evaluation.h"
#include "trainer/train/train_options.h"

// What evaluations are compared with. PURE, from what is equal on all ranks: so they decide alike.
namespace coxswain::train {

// Whether this evaluation is the best one so far, where the best is kept: then `state` says so.
bool take_best(const CheckpointOptions& options, const Scores& scores, checkpoint::State& state);

// Counts the evaluation of epoch `epoch` (from 1) for earlyStopping.
void count_evaluation(const EarlyStopping& options, const Scores& scores, std::int64_t epoch,
                      checkpoint::State& state);

bool stops_early(const EarlyStopping& options, const checkpoint::State& state);

// "stopped early: accuracy 0.9712 of epoch 4 was not reached in 3 evaluations".
std::string why_early(const EarlyStopping& options, const checkpoint::State& state);

}  // namespace coxswain::train
