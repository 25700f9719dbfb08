#pragma once

#include <optional>

#include "trainer/train/start_up.h"

namespace coxswain::train {

// Images a second of one rank alone: rank 0 trains a copy of the model for some seconds on its
// share of a step while the others wait; then all know. Nothing of the training itself is touched.
// Nothing where rank 0 has no share. Every rank calls it, once `now` is made ready.
std::optional<double> measure_one_rank(const graph::Graph& graph, const TrainOptions& options,
                                       const Collaborators& with, const Started& now);

}  // namespace coxswain::train
