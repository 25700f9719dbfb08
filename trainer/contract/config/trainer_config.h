#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/augment/augmentation.h"
#include "trainer/options/options.h"
#include "trainer/options/saving.h"

namespace coxswain::contract {

struct DataConfig {
  DataFormat format = DataFormat::kMnist;
  std::string path;       // empty: /data, or the bundled digits for mnist
  std::string eval_path;  // empty: path
  Split split = Split::kShuffle;
  LastBatch last_batch = LastBatch::kKeep;
  std::int64_t workers = 0;  // 0: auto
  std::vector<augment::Augmentation> augment;
  std::vector<augment::Augmentation> eval_augment;  // empty: augment
  Orientation orientation = Orientation::kIgnore;
  Decoding decode = Decoding::kFull;
  BadSamples bad_samples = BadSamples::kFail;
  std::int64_t limit = 0;           // training samples: the first ones; 0: all
  std::int64_t channels = 0;        // 0: mnist 1, pictures 3
  std::vector<std::int64_t> shape;  // synthetic, raw records: C, H, W
  std::int64_t classes = 0;         // synthetic; 0: the model's own
  std::int64_t size = 10000;        // synthetic: training samples
  bool operator==(const DataConfig&) const = default;
};

struct OptimizerConfig {
  OptimizerKind name = OptimizerKind::kSgd;
  MomentumForm form = MomentumForm::kPyTorch;
  double lr = 0.01;     // adam, adamw, rmsprop: 0.001; adadelta: 1
  double momentum = 0;  // nesterov, signum: 0.9
  double beta1 = 0.9;
  double beta2 = 0.999;
  double rho = 0.9;
  bool centered = false;
  double epsilon = 1e-7;    // adagrad: 1e-10; adadelta: 1e-6
  double weight_decay = 0;  // adamw: 0.01
  DecayScope decay = DecayScope::kAll;
  std::optional<double> clip_global_norm;
  std::optional<double> clip_value;
  double eta = 0.001;  // lars
  double ema_decay = 0;
  bool operator==(const OptimizerConfig&) const = default;
};

struct LrScheduleConfig {
  ScheduleKind name = ScheduleKind::kConstant;
  double warmup_epochs = 0;
  LrScaling scaling = LrScaling::kNone;
  std::vector<double> milestones;  // in epochs
  double step_epochs = 0;
  double gamma = 0.1;
  double power = 1;
  double min_lr = 0;
  double rise_epochs = 0;
  CycleMode cycle_mode = CycleMode::kTriangular;
  double pct_start = 0.3;
  double div_factor = 25;
  double final_div_factor = 1e4;
  bool cycle_momentum = false;
  double base_momentum = 0.85;
  double max_momentum = 0.95;
  bool operator==(const LrScheduleConfig&) const = default;
};

struct CommunicationConfig {
  CommunicationBackend backend = CommunicationBackend::kAuto;
  std::int64_t bucket_bytes = 0;  // 0: from the measured cost of a message and of a byte
  Encryption encryption = Encryption::kTls;
  Compression compression = Compression::kNone;
  double compression_threshold = 0.5;
  double compression_ratio = 0.05;
  std::int64_t partial = 1;
  bool operator==(const CommunicationConfig&) const = default;
};

struct ParameterServerConfig {
  ServerMode mode = ServerMode::kSync;
  std::int64_t staleness = 4;
  bool operator==(const ParameterServerConfig&) const = default;
};

struct EvaluateConfig {
  std::int64_t every_epochs = 1;  // 0: at the end alone
  std::int64_t batch_size = 0;    // rows a rank; 0: as in training
  bool operator==(const EvaluateConfig&) const = default;
};

struct MetricsConfig {
  std::vector<std::int64_t> top_k = {1};
  bool operator==(const MetricsConfig&) const = default;
};

struct EarlyStoppingConfig {
  WatchedMetric metric = WatchedMetric::kAccuracy;
  std::optional<std::int64_t> patience;
  bool operator==(const EarlyStoppingConfig&) const = default;
};

struct CheckpointConfig {
  std::string path;  // empty: the job's volume; without a job no checkpoints are written
  std::optional<std::int64_t> every_steps;
  std::optional<std::int64_t> every_epochs;
  std::int64_t every_seconds = 60;
  std::int64_t keep = 3;
  std::optional<std::int64_t> keep_epochs;  // 0: all
  KeptBest best = KeptBest::kNone;
  bool resume = true;
  std::optional<std::int64_t> from_epoch;  // one of the three at most
  std::optional<std::int64_t> from_step;
  std::string from_path;
  std::int64_t max_failures = 3;
  bool operator==(const CheckpointConfig&) const = default;
};

// Value. Everything that decides how a model is trained. The initialisers are the defaults;
// config_fields.h names, limits and documents each member.
struct TrainerConfig {
  Model model = Model::kSingaCnn;  // must be given, or
  std::string model_file;
  DataConfig data;
  std::optional<std::int64_t> epochs;  // 10 when neither is given
  std::optional<std::int64_t> steps;
  std::int64_t batch_size = 64;
  BatchSemantics batch_semantics = BatchSemantics::kPerWorker;
  GradientReduction gradient_reduction = GradientReduction::kMean;
  std::int64_t accumulate = 1;
  BatchNormScope batch_norm = BatchNormScope::kLocal;
  OptimizerConfig optimizer;
  LrScheduleConfig lr_schedule;
  Precision precision = Precision::kFp32;  // amp_level: its own
  AmpLevel amp_level = AmpLevel::kNone;
  double loss_scale = 1;  // 0: dynamic, -1: tf; fp16 but for O3: dynamic
  Convolution convolution = Convolution::kDirect;
  double label_smoothing = 0;
  std::uint64_t seed = 42;
  std::string pretrained;  // empty: first values are drawn
  std::vector<std::string> freeze;
  Reproducible reproducible = Reproducible::kSameWorldSize;
  std::int64_t virtual_shards = 8;
  CommunicationConfig communication;
  KvStore kv_store = KvStore::kNone;
  ParameterServerConfig parameter_server;
  EvaluateConfig evaluate;
  MetricsConfig metrics;
  EarlyStoppingConfig early_stopping;
  std::int64_t non_finite_skip = 10;
  std::int64_t step_deadline_seconds = 300;
  std::int64_t log_every_steps = 100;
  std::optional<double> one_rank_rate;  // 0: measured
  std::string tensorboard;              // under the checkpoints' path; empty: none
  bool report_histograms = false;
  bool report_html = false;
  std::string timeline;  // a file under the checkpoints' path; empty: none
  std::string timeline_steps = "100-120";
  Device device = Device::kCpu;
  std::int64_t threads = 0;  // 0: auto
  CheckpointConfig checkpoint;
  bool operator==(const TrainerConfig&) const = default;
};

}  // namespace coxswain::contract
