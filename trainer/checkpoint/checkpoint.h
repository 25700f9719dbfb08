#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace coxswain::checkpoint {

// Value. One tensor as it lies in a safetensors file: float32, canonical order.
struct NamedTensor {
  std::string name;
  std::vector<std::int64_t> dims;
  std::vector<float> values;
  bool operator==(const NamedTensor&) const = default;
};

// Value. state.json: all that a bit-exact resume needs beside the tensors (docs/design.md, "What a
// resume needs"). Random numbers are counter-based, so the seed (in the configuration) and the
// position are their whole state.
struct State {
  std::int64_t step = 0;              // optimizer steps done since the start of training
  std::int64_t update_count = 0;      // updates applied (skipped steps do not count)
  std::int64_t epoch = 0;             // from 0
  std::int64_t samples_in_epoch = 0;  // global samples consumed in it
  std::int64_t rolled_over = 0;       // samples of earlier epochs that it began with
  std::int64_t total_steps = 0;       // of the schedule
  std::int64_t skipped_in_a_row = 0;  // non-finite steps
  double loss_scale = 1;              // of the next step
  std::int64_t clean_steps = 0;       // since it changed
  int world_size = 1;
  std::int64_t global_batch = 1;  // of the first start
  std::int64_t attempt = 0;
  double epoch_loss_sum = 0;  // metric accumulators of the running epoch
  std::int64_t epoch_correct = 0;
  std::int64_t epoch_samples = 0;
  double last_accuracy = -1;  // of the last evaluation; -1: none yet
  double last_loss = 0;
  std::vector<std::string> class_names = {};  // where the dataset has them; else empty
  std::string network = {};                   // a user's own, as the file says it; else empty
  // Of layers that were timed and are not computed as their device would have it.
  std::map<std::string, std::string> algorithms = {};
  double best_accuracy = -1;        // of the evaluations so far, by checkpoint.best; -1: none
  double watched_best = 0;          // of what earlyStopping.metric says
  std::int64_t watched_epoch = 0;   // from 1, of that best; 0: there is none yet
  std::int64_t without_better = 0;  // evaluations since
  bool finished = false;            // training reached its end
  bool pushes_exactly = false;      // since a codec of pushes did not pay
  std::string fingerprint;          // of the numbers: library, ISA, threads, kernels
  std::map<std::string, std::string> identity;      // configuration keys that must not change
  std::map<std::string, std::string> trajectory;    // ... that may, with a warning
  std::map<std::string, std::string> dataset = {};  // what was trained on; empty: not known
  bool operator==(const State&) const = default;
};

// Value. Why a checkpoint is kept though newer ones come; not in its files.
struct Keep {
  std::int64_t epoch = 0;  // it is of this epoch's end, from 1; 0: of none
  bool best = false;       // its epoch is the best so far
  bool operator==(const Keep&) const = default;
};

// Value. All of one checkpoint.
struct Contents {
  State state;
  std::vector<NamedTensor> model;      // weights and running statistics
  std::vector<NamedTensor> optimizer;  // "<slot>.<tensor>"
  Keep keep = {};
};

}  // namespace coxswain::checkpoint
