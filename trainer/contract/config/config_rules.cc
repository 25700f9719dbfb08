#include "trainer/contract/config/config_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <filesystem>

#include "trainer/contract/config/config_fields.h"
#include "trainer/contract/config/config_value.h"

namespace coxswain::contract {

namespace {

constexpr std::int64_t kDefaultEpochs = 10;
constexpr std::int64_t kMostTimelineSteps = 200;

const Field& field_of(std::string_view key) {
  return *std::find_if(kFields.begin(), kFields.end(),
                       [key](const Field& field) { return field.key == key; });
}

void check_meaning(const TrainerConfig& config, const std::set<std::string, std::less<>>& given,
                   const ReportRule& report) {
  for (const Field& field : kFields) {
    if (!given.contains(field.key) || applies(field, config)) continue;
    report(field.key, fmt::format("only with {} {}; here it is {}", field.only_key,
                                  one_of(split_choices(field.only_values)),
                                  value_text(field_of(field.only_key), config)));
  }
}

// 0: not known here.
tensor::Shape image_shape(const DataConfig& data) {
  switch (data.format) {
    case DataFormat::kMnist:
      return {1, std::max<std::int64_t>(1, data.channels), 28, 28};
    case DataFormat::kCifar10:
      return {1, 3, 32, 32};
    case DataFormat::kSynthetic:
    case DataFormat::kImageFolder:
    case DataFormat::kRecordIo:
      if (data.shape.size() == 3) return {1, data.shape[0], data.shape[1], data.shape[2]};
      break;
  }
  if (data.format == DataFormat::kSynthetic) return {1, 0, 0, 0};
  return {1, data.channels == 0 ? 3 : data.channels, 0, 0};
}

void check_augment(const DataConfig& data, const std::set<std::string, std::less<>>& given,
                   const ReportRule& report) {
  const tensor::Shape shape = image_shape(data);
  const auto problems = augment::problems_of(data.augment, shape);
  for (const auto& problem : problems) report("data.augment", problem);
  for (const auto& problem : augment::problems_of(data.eval_augment, shape)) {
    report("data.evalAugment", problem);
  }
  if (given.contains("data.evalAugment") && data.eval_augment.empty()) {
    report("data.evalAugment", "must not be empty: leave it out, and it is data.augment");
  }
}

void check_channels(const DataConfig& data, const ReportRule& report) {
  if (data.channels == 2) report("data.channels", "must be 1 or 3: grey or colours");
}

void check_schedule(const TrainerConfig& config, const std::set<std::string, std::less<>>& given,
                    const ReportRule& report) {
  const LrScheduleConfig& schedule = config.lr_schedule;
  if (schedule.name == ScheduleKind::kMultistep) {
    const auto& milestones = schedule.milestones;
    const bool rising = std::adjacent_find(milestones.begin(), milestones.end(),
                                           std::greater_equal<>()) == milestones.end();
    if (milestones.empty()) report("lrSchedule.milestones", "required with multistep: [30, 60]");
    if (!rising) report("lrSchedule.milestones", "must rise");
  }
  if (schedule.name == ScheduleKind::kStep && schedule.step_epochs == 0)
    report("lrSchedule.stepEpochs", "required with step, above 0: 30");
  if (schedule.name == ScheduleKind::kExponential && !given.contains("lrSchedule.gamma"))
    report("lrSchedule.gamma", "required with exponential: 0.95");
  if (schedule.name == ScheduleKind::kCyclic) {
    if (schedule.rise_epochs == 0)
      report("lrSchedule.riseEpochs", "required with cyclic, above 0: 2");
    if (schedule.warmup_epochs > 0 && schedule.min_lr == 0)
      report("lrSchedule.warmupEpochs", "with cyclic it rises to minLr, which must be above 0");
  }
  const OptimizerKind kind = config.optimizer.name;
  if (schedule.cycle_momentum &&
      (kind == OptimizerKind::kAdaGrad || kind == OptimizerKind::kAdaDelta))
    report("lrSchedule.cycleMomentum", fmt::format("{} has no momentum", word(kind)));
  if (schedule.min_lr > config.optimizer.lr) {
    report("lrSchedule.minLr",
           fmt::format("{} must be at most optimizer.lr, {}", number_text(schedule.min_lr),
                       number_text(config.optimizer.lr)));
  }
  if (schedule.cycle_momentum && schedule.base_momentum > schedule.max_momentum) {
    report("lrSchedule.baseMomentum",
           fmt::format("{} must be at most maxMomentum, {}", number_text(schedule.base_momentum),
                       number_text(schedule.max_momentum)));
  }
  if (schedule.scaling != LrScaling::kNone && config.batch_semantics == BatchSemantics::kGlobal) {
    report("lrSchedule.scaling",
           "must be none with batchSemantics global: the batch doesn't grow with the ranks");
  }
}

void check_model_file(const TrainerConfig& config, const std::set<std::string, std::less<>>& given,
                      const ReportRule& report) {
  if (config.model_file.empty()) return;
  if (given.contains("model")) report("modelFile", "not with model: give one of them");
  if (config.data.format == DataFormat::kSynthetic && config.data.shape.empty())
    report("data.shape", "required with modelFile: [1, 28, 28]");
}

void check_kv_store(const TrainerConfig& config, const ReportRule& report) {
  const KvStore store = config.kv_store;
  if (store == KvStore::kNone) return;
  const ServerMode mode = config.parameter_server.mode;
  if (mode != mode_of(store))
    report("kvStore", fmt::format("{} is parameterServer.mode {}, and here that is {}: give one",
                                  word(store), word(mode_of(store)), word(mode)));
}

void check_reproducible(const TrainerConfig& config, const ReportRule& report) {
  if (config.reproducible != Reproducible::kAnyWorldSize) return;
  if (config.batch_semantics != BatchSemantics::kGlobal) {
    report("reproducible", "anyWorldSize needs batchSemantics: global");
  }
  if (config.parameter_server.mode != ServerMode::kSync) {
    report("reproducible", "anyWorldSize needs parameterServer.mode: sync");
  }
  if (config.communication.compression != Compression::kNone) {
    report("reproducible",
           "anyWorldSize needs communication.compression: none: what is left out is each rank's");
  }
  if (config.communication.partial > 1) {
    report("reproducible",
           "anyWorldSize needs communication.partial: 1: what is left out is each rank's");
  }
  if (config.batch_norm != BatchNormScope::kLocal) {
    report("reproducible",
           "anyWorldSize needs batchNorm: local: shards know nothing of each other");
  }
  if (config.data.split != Split::kShuffle) {
    report("reproducible", "anyWorldSize needs data.split: shuffle");
  }
  if (!std::has_single_bit(static_cast<std::uint64_t>(config.virtual_shards))) {
    report("virtualShards",
           fmt::format("must be a power of two, 1..64, got {}", config.virtual_shards));
  }
  if (config.batch_size < config.virtual_shards) {
    report("batchSize", fmt::format("{} must be at least virtualShards, {}", config.batch_size,
                                    config.virtual_shards));
  }
}

struct OptimizerDefaults {
  double lr = 0.01;
  double momentum = 0;
  double epsilon = 1e-7;
  double weight_decay = 0;
};

OptimizerDefaults defaults_of(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kAdam:
    case OptimizerKind::kRmsProp:
      return {.lr = 0.001};
    case OptimizerKind::kAdamW:
      return {.lr = 0.001, .weight_decay = 0.01};
    case OptimizerKind::kAdaGrad:
      return {.epsilon = 1e-10};
    case OptimizerKind::kAdaDelta:
      return {.lr = 1, .epsilon = 1e-6};
    case OptimizerKind::kNesterov:
    case OptimizerKind::kSignum:
      return {.momentum = 0.9};
    case OptimizerKind::kLars:
      return {.lr = 0.1, .momentum = 0.9};
    case OptimizerKind::kLamb:
      return {.lr = 0.001, .epsilon = 1e-6};
    case OptimizerKind::kMuon:
      return {.lr = 0.001, .momentum = 0.95, .weight_decay = 0.1};
    case OptimizerKind::kSgd:
      break;
  }
  return {};
}

void check_from(const CheckpointConfig& checkpoint, const ReportRule& report) {
  const int asked = (checkpoint.from_epoch ? 1 : 0) + (checkpoint.from_step ? 1 : 0) +
                    (checkpoint.from_path.empty() ? 0 : 1);
  if (asked == 0) return;
  const std::string_view key = checkpoint.from_epoch  ? "checkpoint.from.epoch"
                               : checkpoint.from_step ? "checkpoint.from.step"
                                                      : "checkpoint.from.path";
  if (asked > 1) report(key, "give one of epoch, step and path");
  if (!checkpoint.resume) report(key, "not with checkpoint.resume: false, which starts anew");
}

void check_early_stopping(const TrainerConfig& config, const ReportRule& report) {
  if (config.early_stopping.patience && config.evaluate.every_epochs == 0)
    report("earlyStopping.patience", "needs evaluate.everyEpochs of 1 or more, here it is 0");
}

void check_metrics(const MetricsConfig& metrics, const ReportRule& report) {
  const std::vector<std::int64_t>& top_k = metrics.top_k;
  if (top_k != std::vector<std::int64_t>{1} && top_k != std::vector<std::int64_t>{1, 5})
    report("metrics.topK", "must be [1] or [1, 5]");
}

void check_report(const TrainerConfig& config, const ReportRule& report) {
  const auto require_below = [&](const char* key, const std::filesystem::path& path) {
    const bool climbs = std::ranges::find(path, "..") != path.end();
    if (path.is_absolute() || climbs)
      report(key, "must lie under the checkpoints' path: curves, not /tmp or ..");
  };
  require_below("report.tensorboard", config.tensorboard);
  require_below("report.timeline", config.timeline);
  if (!config.timeline.empty() && config.parameter_server.mode != ServerMode::kSync)
    report("report.timeline", "needs parameterServer.mode: sync: ranks on their own share no step");
  if (config.report_histograms && config.tensorboard.empty())
    report("report.histograms", "needs report.tensorboard, the directory that they go to");
  if (config.report_histograms && config.parameter_server.mode != ServerMode::kSync)
    report("report.histograms",
           "needs parameterServer.mode: sync: ranks on their own share no epoch");
  const auto steps = parse_step_range(config.timeline_steps);
  if (!steps || steps->last - steps->first >= kMostTimelineSteps)
    report("report.timelineSteps",
           fmt::format("must be two steps, at most {} in all: 100-120", kMostTimelineSteps));
}

void check_device(const TrainerConfig& config, const ReportRule& report) {
  if (config.device != Device::kCuda) return;
  const bool sums_whole =
      config.communication.compression == Compression::kNone && config.communication.partial == 1;
  if (!sums_whole)
    report("device",
           "cuda sums gradients whole and as they are in this version: leave "
           "communication.compression and partial out, or write cpu");
}

Precision precision_of(AmpLevel level) {
  return level == AmpLevel::kNone || level == AmpLevel::kO0 ? Precision::kFp32 : Precision::kFp16;
}

// ampLevel is another name of what precision says.
void check_precision(const TrainerConfig& config, const ReportRule& report) {
  if (config.amp_level == AmpLevel::kNone) return;
  const Precision meant = precision_of(config.amp_level);
  if (config.precision != meant)
    report("ampLevel", fmt::format("{} is precision {}, and here that is {}: give one",
                                   word(config.amp_level), word(meant), word(config.precision)));
}

// Apex's; where ranks train apart one that fits most models.
double default_loss_scale(const TrainerConfig& config) {
  constexpr double kDynamic = 0;
  constexpr double kApart = 1024;
  if (config.precision != Precision::kFp16 || config.amp_level == AmpLevel::kO3) return 1;
  return config.parameter_server.mode == ServerMode::kSync ? kDynamic : kApart;
}

void check_loss_scale(const TrainerConfig& config, const ReportRule& report) {
  if (config.loss_scale <= 0 && config.parameter_server.mode != ServerMode::kSync)
    report("lossScale",
           "must be a number unless parameterServer.mode is sync: no step is all ranks'");
}

}  // namespace

std::string lacks_with_servers(const TrainerConfig& config) {
  const OptimizerConfig& optimizer = config.optimizer;
  if (is_layerwise(optimizer.name)) return "optimizer.name";
  if (optimizer.clip_global_norm) return "optimizer.clipGlobalNorm";
  if (optimizer.ema_decay > 0) return "ema.decay";
  if (config.batch_norm != BatchNormScope::kLocal) return "batchNorm";
  return "";
}

bool applies(const Field& field, const TrainerConfig& config) {
  if (field.only_key.empty()) return true;
  const auto values = split_choices(field.only_values);
  const std::string now = value_text(field_of(field.only_key), config);
  return std::find(values.begin(), values.end(), now) != values.end();
}

std::optional<StepRange> parse_step_range(std::string_view text) {
  StepRange range;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, range.first);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '-') return std::nullopt;
  const auto last = std::from_chars(first.ptr + 1, end, range.last);
  const bool whole = last.ec == std::errc() && last.ptr == end;
  return whole && range.first >= 1 && range.last >= range.first ? std::optional(range)
                                                                : std::nullopt;
}

void check_rules(const TrainerConfig& config, const std::set<std::string, std::less<>>& given,
                 const ReportRule& report) {
  check_meaning(config, given, report);
  if (!config.data.shape.empty() && config.data.shape.size() != 3) {
    report("data.shape",
           fmt::format("must be three numbers, [C, H, W], got {}", config.data.shape.size()));
  }
  check_augment(config.data, given, report);
  check_channels(config.data, report);
  if (config.optimizer.name == OptimizerKind::kNesterov && config.optimizer.momentum == 0) {
    report("optimizer.momentum", "must be above 0 with nesterov");
  }
  check_schedule(config, given, report);
  check_model_file(config, given, report);
  check_kv_store(config, report);
  check_reproducible(config, report);
  check_from(config.checkpoint, report);
  check_early_stopping(config, report);
  check_metrics(config.metrics, report);
  check_report(config, report);
  check_device(config, report);
  check_precision(config, report);
  check_loss_scale(config, report);
}

void fill_defaults(TrainerConfig& config, const std::set<std::string, std::less<>>& given) {
  OptimizerConfig& optimizer = config.optimizer;
  const OptimizerDefaults defaults = defaults_of(optimizer.name);
  if (!given.contains("optimizer.lr")) optimizer.lr = defaults.lr;
  if (!given.contains("optimizer.momentum")) optimizer.momentum = defaults.momentum;
  if (!given.contains("optimizer.epsilon")) optimizer.epsilon = defaults.epsilon;
  if (!given.contains("optimizer.weightDecay")) optimizer.weight_decay = defaults.weight_decay;
  if (!given.contains("parameterServer.mode"))
    config.parameter_server.mode = mode_of(config.kv_store);
  if (!given.contains("precision")) config.precision = precision_of(config.amp_level);
  if (!given.contains("lossScale")) config.loss_scale = default_loss_scale(config);
  if (!config.epochs && !config.steps) config.epochs = kDefaultEpochs;
}

}  // namespace coxswain::contract
