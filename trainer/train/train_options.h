#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainer/compress/codec.h"
#include "trainer/data/dataset.h"
#include "trainer/data/preprocessor.h"
#include "trainer/data/sampler.h"
#include "trainer/graph/models/layer_list.h"
#include "trainer/graph/passes.h"
#include "trainer/onnx/model.h"
#include "trainer/optim/lr_schedule.h"
#include "trainer/optim/update_rule.h"
#include "trainer/options/saving.h"
#include "trainer/train/loss_scale.h"

namespace coxswain::train {

enum class Phase { kLoad, kForward, kBackward, kReduce, kUpdate, kEvaluate, kSave, kServe };
constexpr Words<Phase, 8> words_of(Phase) {
  return {{{Phase::kLoad, "load"},
           {Phase::kForward, "forward"},
           {Phase::kBackward, "backward"},
           {Phase::kReduce, "reduce"},
           {Phase::kUpdate, "update"},
           {Phase::kEvaluate, "evaluate"},
           {Phase::kSave, "save"},
           {Phase::kServe, "serve"}}};
}

// Where a rank, or in phase kServe a server, kills itself, so that a test can prove what follows:
// at the first step of its own from there on, in attempt 0.
struct FailPoint {
  int rank = 0;  // or server
  std::int64_t step = 0;
  Phase phase = Phase::kForward;
};

struct CheckpointOptions {
  std::filesystem::path directory;  // empty: no checkpoints
  std::int64_t every_steps = 0;     // 0: not by steps
  std::int64_t every_epochs = 0;    // 0: not by epochs
  double every_seconds = 60;        // 0: not by time
  int keep = 3;
  std::optional<int> keep_epochs;  // beside them; 0: all
  KeptBest best = KeptBest::kNone;
  int max_failures = 3;
  bool resume = true;
  std::optional<std::int64_t> from_epoch;  // where a run begins; one of the three at most
  std::optional<std::int64_t> from_step;
  std::filesystem::path from_path;

  bool begins_from_one() const { return from_epoch || from_step || !from_path.empty(); }
};

// Training ends once so many evaluations in a row were no better than the best before them.
struct EarlyStopping {
  WatchedMetric metric = WatchedMetric::kAccuracy;
  std::int64_t patience = 0;  // 0: not early
};

// Which steps, from 1, are told in all their parts; an empty file: none.
struct TimelineOptions {
  std::filesystem::path file;
  std::int64_t first_step = 0;
  std::int64_t last_step = 0;
};

// Value. All that training needs to know beside its collaborators. Batch sizes count samples.
struct TrainOptions {
  Model model = Model::kMlp;
  std::vector<graph::Layer> layers;  // in its place
  std::optional<onnx::Model> onnx;   // likewise, without its weights
  std::string network;               // the file of these, for checkpoints
  Precision precision = Precision::kFp32;
  LossScaling loss_scaling;
  float label_smoothing = 0;
  std::uint64_t seed = 42;
  std::filesystem::path pretrained;  // what a run begins with; empty: drawn values
  std::vector<std::string> freeze;   // beginnings of names
  int threads = 1;                   // of the backend, to be told

  std::int64_t batch_size = 64;
  bool global_batch_size = false;  // batch_size is of all ranks together, else of each
  bool joins_norms = false;        // BatchNorm in training is of all ranks' rows
  int accumulate = 1;           // micro-batches a step on each rank; multiplies a per-worker batch
  int virtual_shards = 0;       // anyWorldSize: V; 0: sameWorldSize
  bool divide_by_count = true;  // gradientReduction: mean; false: mxnet-sum
  Split split = Split::kShuffle;
  LastBatch last_batch = LastBatch::kKeep;
  data::Preprocessing preprocessing;
  std::optional<data::Preprocessing> evaluation_preprocessing;  // none: the same, without chance
  bool skip_bad_samples = false;
  int data_workers = 1;  // threads that read and prepare images

  std::optional<std::int64_t> epochs;
  std::optional<std::int64_t> steps;
  optim::UpdateRule rule;
  optim::Schedule schedule;  // lr before scaling
  LrScaling lr_scaling = LrScaling::kNone;

  std::int64_t evaluate_every_epochs = 1;
  std::int64_t evaluation_batch = 256;
  EarlyStopping early_stopping;
  std::int64_t max_skipped = 10;  // non-finite steps in a row
  std::int64_t report_every_steps = 20;
  bool tells_top5 = false;
  bool tells_weights = false;  // to the observer, at the end of each epoch
  TimelineOptions timeline;
  std::optional<double> one_rank_rate;  // images/s of one rank alone; 0: to be measured
  std::int64_t bucket_bytes = 0;        // 0: from the measured cost of a message and of a byte
  // Sums in an order that timing can't change; false (reproducible: none): any communicator will
  // do, and the same bits are not spoken of.
  bool fixed_order = true;

  compress::Codec codec;  // of what is pushed to servers

  CheckpointOptions checkpoint;
  bool keep_global_batch = true;  // on a resume with another world size
  std::string job_uid;            // empty: not known
  std::int64_t attempt = 0;
  std::map<std::string, std::string> identity;  // configuration keys by what a change of them means
  std::map<std::string, std::string> trajectory;
  std::optional<FailPoint> fail_point;
  std::vector<std::string> notes;  // to be told at the start
};

// Throws Error (65) where norms are to be of all ranks and there are none.
graph::Graph build_graph(const TrainOptions& options, tensor::Shape input, std::int64_t classes,
                         float label_smoothing);

const data::Preprocessing& evaluation_steps(const TrainOptions& options);

// No more than there is to evaluate.
std::int64_t evaluation_batch(const TrainOptions& options, const data::Dataset& test);

}  // namespace coxswain::train
