#include "trainer/build.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>

#include "trainer/amp_level.h"
#include "trainer/backend/cuda/cuda_backend.h"
#include "trainer/backend/onednn/onednn_backend.h"
#include "trainer/contract/config/config_rules.h"
#include "trainer/contract/error.h"
#include "trainer/contract/worker/constants.h"
#include "trainer/cpu_quota.h"
#include "trainer/gpu_choice.h"
#include "trainer/graph/models/models.h"
#include "trainer/network_file.h"
#include "trainer/onnx/file.h"
#include "trainer/onnx/network.h"
#include "trainer/tensor/fnv1a.h"
#include "trainer/train/averaged_weights.h"

namespace coxswain {

namespace {

using contract::TrainerConfig;
namespace fs = std::filesystem;

// The digits that came with the program: in an image, or in the checkout that it was built in.
std::optional<fs::path> bundled_digits() {
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  const fs::path checkout = program.parent_path().parent_path().parent_path().parent_path();
  for (const fs::path& directory :
       {fs::path(contract::kBundledMnistDirectory), checkout / "examples/data/mnist"}) {
    if (fs::is_directory(directory, ignored)) return directory;
  }
  return std::nullopt;
}

std::optional<fs::path> find_data(const TrainerConfig& config) {
  if (!config.data.path.empty()) return config.data.path;
  std::error_code ignored;
  if (fs::is_directory(contract::kDataDirectory, ignored)) return contract::kDataDirectory;
  return config.data.format == DataFormat::kMnist ? bundled_digits() : std::nullopt;
}

fs::path data_directory(const TrainerConfig& config) {
  if (const auto found = find_data(config)) return *found;
  throw Error(ExitCode::kBadInput,
              fmt::format("[data] no data: {} is not there and data.path is not set",
                          contract::kDataDirectory));
}

const std::vector<augment::Augmentation>& evaluation_steps(const TrainerConfig& config) {
  return config.data.eval_augment.empty() ? config.data.augment : config.data.eval_augment;
}

std::unique_ptr<data::Dataset> open_synthetic(const TrainerConfig& config, data::Part part) {
  const graph::ModelInfo& model = graph::model_info(config.model);
  tensor::Shape shape = model.input;
  if (config.data.shape.size() == 3) {
    shape = {1, config.data.shape[0], config.data.shape[1], config.data.shape[2]};
  }
  const std::int64_t classes = config.data.classes > 0 ? config.data.classes : model.classes;
  const std::int64_t size = part == data::Part::kTraining
                                ? config.data.size
                                : std::max<std::int64_t>(1, config.data.size / 10);
  return data::make_synthetic(shape, classes, size,
                              config.seed + (part == data::Part::kTest ? 1 : 0));
}

// The shorter side that the first step of a list asks for: what may be decoded smaller, as long as
// it is not below this. 0: there is no telling.
std::int64_t least_side(const std::vector<augment::Augmentation>& steps) {
  const auto* resize = steps.empty() ? nullptr : std::get_if<augment::Resize>(&steps.front());
  return resize == nullptr ? 0 : resize->size;
}

data::PictureOptions picture_options(const TrainerConfig& config, data::Part part) {
  data::PictureOptions options;
  options.channels = config.data.channels == 0 ? 3 : config.data.channels;
  const auto& shape = config.data.shape;
  if (shape.size() == 3) options.raw = {1, shape[0], shape[1], shape[2]};
  options.apply_orientation = config.data.orientation == Orientation::kApply;
  if (config.data.decode == Decoding::kScaled) {
    options.least_side =
        least_side(part == data::Part::kTest ? evaluation_steps(config) : config.data.augment);
  }
  return options;
}

std::unique_ptr<data::Dataset> open_dataset(const TrainerConfig& config, data::Part part) {
  const fs::path eval_path = config.data.eval_path;
  const bool separate = part == data::Part::kTest && !eval_path.empty();
  const std::string_view key = separate ? data::kEvalPathKey : data::kPathKey;
  switch (config.data.format) {
    case DataFormat::kMnist: {
      auto digits = data::open_mnist(separate ? eval_path : data_directory(config), part, key);
      if (config.data.channels <= 1) return digits;
      return data::repeat_channels(std::move(digits), config.data.channels);
    }
    case DataFormat::kCifar10:
      return data::open_cifar10(separate ? eval_path : data_directory(config), part, key);
    case DataFormat::kSynthetic:
      return open_synthetic(config, part);
    case DataFormat::kImageFolder:
      return data::open_image_folder(data_directory(config), config.data.eval_path, part,
                                     picture_options(config, part));
    case DataFormat::kRecordIo:
      return data::open_records(data_directory(config), config.data.eval_path, part,
                                picture_options(config, part));
  }
  throw Error(ExitCode::kInternal, "[data] unknown format");
}

bool is_decoded(DataFormat format) {
  return format == DataFormat::kImageFolder || format == DataFormat::kRecordIo;
}

int cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int allowed = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  const double granted = std::min<double>(allowed, cgroup_cores().value_or(allowed));
  return std::max(1, static_cast<int>(granted));
}

optim::UpdateRule make_rule(const contract::OptimizerConfig& config) {
  optim::UpdateRule rule;
  rule.kind = config.name;
  rule.form = config.form;
  rule.decay_scope = config.decay;
  rule.weight_decay = static_cast<float>(config.weight_decay);
  rule.centered = config.centered;
  rule.beta1 = static_cast<float>(config.beta1);
  rule.beta2 = static_cast<float>(has_betas(config.name) ? config.beta2 : config.rho);
  rule.epsilon = static_cast<float>(config.epsilon);
  rule.eta = static_cast<float>(config.eta);
  rule.clip_norm = static_cast<float>(config.clip_global_norm.value_or(0));
  if (config.clip_value) rule.clip_value = static_cast<float>(*config.clip_value);
  rule.ema_decay = static_cast<float>(config.ema_decay);
  return rule;
}

train::LossScaling make_loss_scaling(double scale) {
  constexpr double kPyTorch = 65536;
  constexpr double kTensorFlow = 32768;
  if (scale > 0) return {.initial = scale};
  return {.initial = scale == 0 ? kPyTorch : kTensorFlow, .dynamic = true};
}

optim::Schedule make_schedule(const TrainerConfig& config) {
  const contract::LrScheduleConfig& from = config.lr_schedule;
  const contract::OptimizerConfig& optimizer = config.optimizer;
  optim::Schedule schedule;
  schedule.kind = from.name;
  schedule.lr = static_cast<float>(optimizer.lr);
  const bool takes_beta1 = has_betas(optimizer.name) && optimizer.name != OptimizerKind::kMuon;
  schedule.momentum = static_cast<float>(takes_beta1 ? optimizer.beta1 : optimizer.momentum);
  schedule.min_lr = static_cast<float>(from.min_lr);
  schedule.warmup_epochs = from.warmup_epochs;
  schedule.milestones = from.milestones;
  schedule.step_epochs = from.step_epochs;
  schedule.rise_epochs = from.rise_epochs;
  schedule.cycle_mode = from.cycle_mode;
  schedule.gamma = static_cast<float>(from.gamma);
  schedule.power = static_cast<float>(from.power);
  schedule.pct_start = static_cast<float>(from.pct_start);
  schedule.div_factor = static_cast<float>(from.div_factor);
  schedule.final_div_factor = static_cast<float>(from.final_div_factor);
  schedule.cycle_momentum = from.cycle_momentum;
  schedule.base_momentum = static_cast<float>(from.base_momentum);
  schedule.max_momentum = static_cast<float>(from.max_momentum);
  return schedule;
}

// "1:137:backward": rank, step and phase at which a rank shall die, for tests.
train::FailPoint parse_fail_point(const std::string& text) {
  constexpr auto kPhases = words_of(train::Phase{});
  train::FailPoint point;
  char phase[16] = {};
  long long step = 0;
  if (std::sscanf(text.c_str(), "%d:%lld:%15s", &point.rank, &step, phase) == 3) {
    point.step = step;
    if (const auto known = value_of(kPhases, phase)) {
      point.phase = *known;
      return point;
    }
  }
  throw Error(ExitCode::kUsage,
              fmt::format("[train] COXSWAIN_FAIL_POINT: \"{}\" is not rank:step:phase with "
                          "one of {}",
                          text, list_words(kPhases)));
}

// What MXNet's users may not expect of the name: there, dist leaves the sum over the workers as it
// is, and dist_async counts a late gradient as much as any.
std::string meaning_of(KvStore store) {
  if (mode_of(store) == ServerMode::kAsync)
    return fmt::format(
        "kvStore {} is parameterServer.mode async: each rank's gradients count at once, at a rate "
        "divided by their staleness",
        word(store));
  return fmt::format(
      "kvStore {} is {}: gradients are averaged over the images of all ranks, and batchSize is "
      "one rank's unless batchSemantics is global",
      word(store), has_servers(store) ? "parameterServer.mode sync" : "strategy AllReduce");
}

}  // namespace

contract::ConfigResult read_configuration(const CommandLine& line) {
  const auto flags = contract::parse_config_flags(line.config_flags);
  if (line.config.empty()) return contract::read_config("", "", flags);
  return contract::read_config_file(line.config, flags);
}

data::PictureOptions test_picture_options(const TrainerConfig& config) {
  return picture_options(config, data::Part::kTest);
}

std::unique_ptr<data::Dataset> open_test_set(const TrainerConfig& config) {
  return open_dataset(config, data::Part::kTest);
}

std::unique_ptr<data::Dataset> open_training_set(const TrainerConfig& config) {
  auto dataset = open_dataset(config, data::Part::kTraining);
  if (config.data.limit == 0) return dataset;
  return data::first_of(std::move(dataset), config.data.limit);
}

int loader_threads(const TrainerConfig& config, int ranks_here) {
  if (config.data.workers > 0) return static_cast<int>(config.data.workers);
  if (!is_decoded(config.data.format)) return 1;
  return std::clamp(cores() / std::max(1, ranks_here), 1, 16);
}

int threads_per_rank(const TrainerConfig& config, int ranks_here) {
  if (config.threads > 0) return static_cast<int>(config.threads);
  if (config.reproducible == Reproducible::kAnyWorldSize) return 1;
  return std::max(1, cores() / std::max(1, ranks_here));
}

std::optional<int> gpu_of_rank(const TrainerConfig& config, int ranks_here, int local_rank) {
  if (config.device == Device::kCpu) return std::nullopt;
  return choose_gpu(config.device,
                    {.gpus = backend::count_gpus(),
                     .ranks_here = ranks_here,
                     .local_rank = local_rank,
                     .visible = contract::lookup_environment("CUDA_VISIBLE_DEVICES").value_or("")});
}

std::unique_ptr<backend::Backend> make_backend(const TrainerConfig& config, int threads,
                                               std::optional<int> gpu) {
  if (gpu) return backend::make_cuda_backend(*gpu);
  return backend::make_onednn_backend(
      {.threads = threads, .winograd = config.convolution == Convolution::kWinograd});
}

train::TrainOptions make_train_options(const TrainerConfig& config,
                                       const std::optional<contract::WorkerEnv>& env) {
  train::TrainOptions options;
  options.model = config.model;
  options.precision = config.precision;
  options.label_smoothing = static_cast<float>(config.label_smoothing);
  options.seed = config.seed;
  if (!config.pretrained.empty())
    options.pretrained = find_data(config).value_or("") / fs::path(config.pretrained);
  options.freeze = config.freeze;
  options.batch_size = config.batch_size;
  options.global_batch_size = config.batch_semantics == BatchSemantics::kGlobal;
  options.accumulate = static_cast<int>(config.accumulate);
  options.joins_norms = config.batch_norm == BatchNormScope::kSync;
  if (config.reproducible == Reproducible::kAnyWorldSize) {
    options.virtual_shards = static_cast<int>(config.virtual_shards);
  }
  options.fixed_order = config.reproducible != Reproducible::kNone;
  options.divide_by_count = config.gradient_reduction == GradientReduction::kMean;
  options.split = config.data.split;
  options.last_batch = config.data.last_batch;
  options.preprocessing = config.data.augment;
  options.evaluation_preprocessing = evaluation_steps(config);
  options.skip_bad_samples = config.data.bad_samples == BadSamples::kSkip;
  options.data_workers = loader_threads(config, 1);
  options.epochs = config.epochs;
  options.steps = config.steps;
  if (!options.epochs && !options.steps) options.epochs = 10;
  options.rule = make_rule(config.optimizer);
  options.rule.rounds_to_half = config.amp_level == AmpLevel::kO3;
  options.loss_scaling = make_loss_scaling(config.loss_scale);
  options.schedule = make_schedule(config);
  options.lr_scaling = config.lr_schedule.scaling;
  options.evaluate_every_epochs = config.evaluate.every_epochs;
  options.evaluation_batch = config.evaluate.batch_size;
  options.max_skipped = config.non_finite_skip;
  options.report_every_steps = config.log_every_steps;
  options.tells_top5 = std::ranges::count(config.metrics.top_k, 5) > 0;
  options.one_rank_rate = config.one_rank_rate;
  options.bucket_bytes = config.communication.bucket_bytes;
  options.codec = {.kind = config.communication.compression,
                   .threshold = static_cast<float>(config.communication.compression_threshold),
                   .ratio = config.communication.compression_ratio,
                   .parts = static_cast<int>(config.communication.partial)};
  options.checkpoint.directory = config.checkpoint.path;
  if (options.checkpoint.directory.empty() && env.has_value()) {
    options.checkpoint.directory = env->checkpoints;
  }
  options.checkpoint.every_steps = config.checkpoint.every_steps.value_or(0);
  options.checkpoint.every_epochs =
      config.checkpoint.every_epochs.value_or(config.checkpoint.keep_epochs ? 1 : 0);
  options.checkpoint.every_seconds = static_cast<double>(config.checkpoint.every_seconds);
  options.checkpoint.keep = static_cast<int>(config.checkpoint.keep);
  options.checkpoint.max_failures = static_cast<int>(config.checkpoint.max_failures);
  options.checkpoint.resume = config.checkpoint.resume;
  if (config.checkpoint.keep_epochs)
    options.checkpoint.keep_epochs = static_cast<int>(*config.checkpoint.keep_epochs);
  options.checkpoint.best = config.checkpoint.best;
  options.checkpoint.from_epoch = config.checkpoint.from_epoch;
  options.checkpoint.from_step = config.checkpoint.from_step;
  options.checkpoint.from_path = config.checkpoint.from_path;
  options.early_stopping = {config.early_stopping.metric,
                            config.early_stopping.patience.value_or(0)};
  if (const auto steps = contract::parse_step_range(config.timeline_steps);
      steps && !config.timeline.empty() && !options.checkpoint.directory.empty())
    options.timeline = {options.checkpoint.directory / config.timeline, steps->first, steps->last};
  options.tells_weights = config.report_histograms;
  options.attempt = env.has_value() ? env->attempt : 0;
  options.keep_global_batch = !env.has_value() || !env->batch_per_worker;
  options.job_uid = env.has_value() ? env->job_uid : "";
  const bool is_first = !env.has_value() || env->incarnation == 0;  // in its place
  if (const auto point = contract::lookup_environment("COXSWAIN_FAIL_POINT"); point && is_first)
    options.fail_point = parse_fail_point(*point);
  if (config.kv_store != KvStore::kNone) options.notes.push_back(meaning_of(config.kv_store));
  for (std::string& line : describe_amp_level(config)) options.notes.push_back(std::move(line));
  options.identity = contract::identity(config);
  options.trajectory = contract::trajectory(config);
  return options;
}

checkpoint::Loaded load_checkpoint(const fs::path& path) {
  checkpoint::Loaded loaded = checkpoint::load_from(path);
  for (const std::string& refused : loaded.refused) fmt::print(stderr, "passed over {}\n", refused);
  if (train::take_averages(loaded.contents)) fmt::print(stderr, "weights: their average\n");
  return loaded;
}

namespace {

// What PyTorch and ONNX have unless something else is said is this program's own.
void take_norm_momentum(const onnx::Model& model, optim::UpdateRule& rule) {
  constexpr float kUsual = 0.9F;
  const auto momentum = onnx::norm_momentum(model);
  if (momentum && *momentum != kUsual) rule.statistic_momentum = 1 - *momentum;
}

}  // namespace

void take_network(const TrainerConfig& config, train::TrainOptions& options) {
  if (config.model_file.empty()) return;
  const fs::path file = find_data(config).value_or("") / fs::path(config.model_file);
  std::size_t count = 0;
  if (onnx::is_onnx(file)) {
    options.onnx = onnx::read_model(file, onnx::Values::kOfTheNetwork);
    options.network = onnx::to_text(*options.onnx);
    count = options.onnx->nodes.size();
    take_norm_momentum(*options.onnx, options.rule);
    if (options.pretrained.empty()) options.pretrained = file;
  } else {
    NetworkFile network = read_network(file);
    options.layers = std::move(network.layers);
    options.network = std::move(network.text);
    count = options.layers.size();
  }
  options.identity["model"] =
      fmt::format("a network of {} layers, {:016x}", count, tensor::fnv1a(options.network));
}

void take_network(const checkpoint::Loaded& loaded, train::TrainOptions& options) {
  const std::string& network = loaded.contents.state.network;
  if (network.empty()) return;
  options.network = network;
  if (onnx::is_model_text(network))
    options.onnx = onnx::from_text(network, loaded.path.string());
  else
    options.layers = parse_network(network, loaded.path.string()).layers;
}

}  // namespace coxswain
