#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/checkpoint/reader.h"
#include "trainer/data/dataset.h"
#include "trainer/train/train_options.h"

namespace coxswain::train {

// Without checkpoint.resume, and with checkpoint.from, a later attempt goes on from the run that
// its own job began. Where an earlier one died before it could, the directory holds runs of other
// jobs alone.
bool begins_run(const TrainOptions& options);

// What this start goes on from: the newest checkpoint, unless it begins a new run, or the one that
// checkpoint.from names. Nothing: there is none. Throws Error (65) where the named one is not
// there, and where LATEST says that there were some and all are gone. Notes a later attempt for
// which nothing was saved.
std::optional<checkpoint::Loaded> load_checkpoint(const TrainOptions& options,
                                                  const data::Dataset& training, bool new_run,
                                                  std::vector<std::string>& notes);

}  // namespace coxswain::train
