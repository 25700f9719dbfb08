#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/train/train_options.h"

namespace coxswain::train {

// Value. What this start differs in from the one that a checkpoint was written by.
struct ThisStart {
  int world_size = 1;
  std::int64_t global_batch = 0;  // as configured
  std::string fingerprint;
  std::map<std::string, std::string> dataset = {};
  std::vector<std::string> class_names = {};  // where they have names
};

// Value. Where to go on, and what to tell about it.
struct ResumePlan {
  checkpoint::State state;         // with this start's world size, batch and fingerprint
  std::vector<std::string> notes;  // "resumed step 400; continues bit for bit"
};

// What a class is called tells which one it is, where both sides know it. Throws Error (65) naming
// the first that is another one.
void require_same_classes(const std::vector<std::string>& saved,
                          const std::vector<std::string>& now);

// Decides how `saved` goes on under `options`. Pure. Throws Error (65) naming both values of an
// identity key, both numbers of classes or names of one, that changed; trajectory keys and the rest
// of what is known of the dataset give a note each. The global batch of the first start stays on
// any world size, until the configuration asks for another one; with keep_global_batch false it is
// what is configured. Samplers that depend on the world size go on at the next epoch.
ResumePlan plan_resume(const checkpoint::State& saved, const TrainOptions& options,
                       const ThisStart& now);

}  // namespace coxswain::train
