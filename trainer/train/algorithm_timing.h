#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/backend/algorithms.h"
#include "trainer/graph/program.h"
#include "trainer/train/training_loop.h"

namespace coxswain::train {

// The layers that are faster with another algorithm than the device's own choice, and which. A few
// per cent are no reason.
backend::Algorithms faster_algorithms(const backend::AlgorithmTimes& times);

// What layers take of a training step with each of the algorithms that the backend knows; of a
// host, with the layers after it that have no choice. Leaves the backend with other choices than
// its own.
backend::AlgorithmTimes algorithm_times(const graph::Program& program, const TrainOptions& options,
                                        const Collaborators& with);

// Value. Algorithms, and how long a training step takes with them; nothing where none was timed.
struct ChosenAlgorithms {
  backend::Algorithms algorithms;
  std::optional<double> step_seconds = std::nullopt;
};

// Times a training step of the program with each of the algorithms that the backend knows, a
// fraction of a second each, and says in a note what it found. What it returns is faster as a whole
// than the backend's own choice. A device that times them by itself has half a minute.
ChosenAlgorithms time_algorithms(const graph::Program& program, const TrainOptions& options,
                                 const Collaborators& with, std::vector<std::string>& notes);

// Says so in a note where a step takes longer in bf16, `step_seconds` where that is known, than in
// float32.
void compare_with_float32(const graph::Graph& graph, const TrainOptions& options,
                          const Collaborators& with, std::optional<double> step_seconds,
                          std::vector<std::string>& notes);

}  // namespace coxswain::train
