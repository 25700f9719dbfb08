#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "trainer/train/evaluation.h"

namespace coxswain::train {

// Told of a sample: its class, and the probability that the model gives each class.
using OnPrediction =
    std::function<void(std::int64_t id, std::int32_t label, std::span<const double> probabilities)>;

// Every sample of the set in order, on one rank, prepared as in evaluation. Bad samples that are
// passed over are left out.
void predict(Executables& executables, const data::Dataset& dataset,
             const EvaluationOptions& options, const OnPrediction& on_prediction);

}  // namespace coxswain::train
