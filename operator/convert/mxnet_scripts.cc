#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "operator/convert/mxnet_augment.h"
#include "operator/convert/script.h"
#include "operator/job/strategy_names.h"
#include "operator/job/yaml.h"

// github.com/apache/mxnet/example/image-classification/: the scripts for CIFAR-10, MNIST and
// ImageNet, and the options that they share.
namespace coxswain::convert {

namespace {

constexpr char kNetwork[] = "network";
constexpr char kLayers[] = "layers";
constexpr char kStore[] = "kvStore";
constexpr char kDrops[] = "milestones";
constexpr char kFactor[] = "factor";
constexpr char kOptimizer[] = "optimizer";
constexpr char kMomentum[] = "momentum";
constexpr char kGpus[] = "gpus";
constexpr char kBatch[] = "batch";
constexpr char kBenchmark[] = "benchmark";
constexpr char kType[] = "dtype";
constexpr char kCompression[] = "compression";
constexpr char kThreshold[] = "threshold";
using enum Outcome;

// An option that is off at 0 or empty has no place only where it is on.
void unless_off(Draft& draft, const std::vector<std::string>& values) {
  if (values.front().find_first_not_of("0.,") != std::string::npos)
    draft.no_place("a distortion of images that is on", "write the like into data.augment by hand");
}

constexpr auto kMxnetOptions = std::to_array<Option>({
    {.names = "--network", .answer = "training.model", .take = keep<kNetwork>},
    {.names = "--num-layers", .answer = "training.model", .take = keep<kLayers>},
    {.names = "--gpus",
     .outcome = kMind,
     .answer = "a slot a GPU; say device: cuda, else they compute on CPUs",
     .take = keep<kGpus>},
    {.names = "--kv-store", .answer = "training.kvStore: {}", .take = keep<kStore>},
    {.names = "--num-epochs", .key = "training.epochs"},
    {.names = "--lr", .key = "training.optimizer.lr"},
    {.names = "--lr-factor", .answer = "training.lrSchedule.gamma: {}", .take = keep<kFactor>},
    {.names = "--lr-step-epochs", .answer = "training.lrSchedule: {}", .take = keep<kDrops>},
    {.names = "--optimizer", .answer = "training.optimizer.name", .take = keep<kOptimizer>},
    {.names = "--mom", .answer = "training.optimizer.momentum: {}", .take = keep<kMomentum>},
    {.names = "--wd", .key = "training.optimizer.weightDecay"},
    {.names = "--batch-size",
     .answer = "training.batchSize: {}, of a worker",
     .take = keep<kBatch>},
    {.names = "--disp-batches", .key = "training.report.logEverySteps"},
    {.names = "--warmup-epochs --warmup-strategy --macrobatch-size",
     .outcome = kNotNeeded,
     .answer = "of lbsgd alone"},
    {.names = "--dtype", .answer = "training.precision", .take = keep<kType>},
    {.names = "--gc-type",
     .answer = "training.communication.compression: {}",
     .take = keep<kCompression>},
    {.names = "--gc-threshold",
     .answer = "training.communication.compressionThreshold: {}",
     .take = keep<kThreshold>},
    {.names = "--model-prefix --save-period",
     .outcome = kNotNeeded,
     .answer = "volumes.checkpoints holds complete checkpoints, by rank 0"},
    {.names = "--load-epoch",
     .outcome = kNotNeeded,
     .answer = "the newest complete checkpoint is taken up at its step"},
    {.names = "--initializer", .outcome = kNoPlace, .answer = "each model has its own"},
    {.names = "--loss --monitor --test-io",
     .outcome = kNotNeeded,
     .answer = "changes nothing of the training"},
    {.names = "--top-k",
     .outcome = kMind,
     .answer = "accuracy is top-1; training.metrics.topK: [1, 5] tells top-5"},
    {.names = "--profile-worker-suffix --profile-server-suffix",
     .outcome = kMind,
     .answer = "training.report.timeline: FILE tells some steps of all ranks"},
    {.names = "--data-train --data-val",
     .outcome = kMind,
     .answer = "the volume `data` holds the data set's own files; records of your own are "
               "data.format: recordio"},
    {.names = "--data-train-idx --data-val-idx --data-nthreads",
     .outcome = kNotNeeded,
     .answer = "of .rec files"},
    {.names = "--image-shape --num-classes --num-examples",
     .outcome = kNotNeeded,
     .answer = "of the data: all of it"},
    {.names = "--rgb-mean", .answer = "training.data.augment: normalise", .take = keep<kMean>},
    {.names = "--rgb-std", .answer = "training.data.augment: normalise", .take = keep<kDeviation>},
    {.names = "--pad-size", .answer = "training.data.augment: pad-crop", .take = keep<kPad>},
    {.names = "--fill-value", .answer = "training.data.augment: pad-crop", .take = keep<kFill>},
    {.names = "--random-crop", .answer = "training.data.augment: pad-crop", .take = keep<kCrop>},
    {.names = "--random-mirror", .answer = "training.data.augment: flip", .take = keep<kFlip>},
    {.names = "--benchmark", .answer = "training.data.format: synthetic", .take = keep<kBenchmark>},
    {.names = "--max-random-h", .answer = "training.data.augment: hsl", .take = keep<kHue>},
    {.names = "--max-random-s",
     .answer = "training.data.augment: hsl",
     .take = keep<kSaturationShift>},
    {.names = "--max-random-l", .answer = "training.data.augment: hsl", .take = keep<kLightness>},
    {.names = "--max-random-rotate-angle",
     .answer = "training.data.augment: affine",
     .take = keep<kRotate>},
    {.names = "--max-random-shear-ratio",
     .answer = "training.data.augment: affine",
     .take = keep<kShear>},
    {.names = "--max-random-aspect-ratio",
     .answer = "training.data.augment: affine",
     .take = keep<kAspect>},
    {.names = "--min-random-scale",
     .answer = "training.data.augment: affine",
     .take = keep<kSmallest>},
    {.names = "--max-random-scale",
     .answer = "training.data.augment: affine",
     .take = keep<kLargest>},
    {.names = "--random-resized-crop",
     .answer = "training.data.augment: random-resized-crop",
     .take = keep<kResizedCrop>},
    {.names = "--brightness",
     .answer = "training.data.augment: brightness",
     .take = keep<kBrightness>},
    {.names = "--contrast", .answer = "training.data.augment: contrast", .take = keep<kContrast>},
    {.names = "--saturation",
     .answer = "training.data.augment: saturation",
     .take = keep<kSaturation>},
    {.names = "--pca-noise", .answer = "training.data.augment: pca", .take = keep<kPca>},
    {.names = "--use-imagenet-data-augmentation --min-random-aspect-ratio --max-random-area "
              "--min-random-area --min-crop-size --max-crop-size",
     .outcome = kNotNeeded,
     .answer = "off, if it is 0",
     .take = unless_off},
    {.names = "--add-stn", .values = 0, .outcome = kNoPlace, .answer = "no such layer"},
});

void begin_mxnet(Draft& draft, Json training) {
  draft.put("training", std::move(training));
  draft.put("training.batchSize", 128);
  draft.put("training.optimizer", Json{{"name", "sgd"},
                                       {"form", "mxnet"},
                                       {"lr", 0.05},
                                       {"momentum", 0.9},
                                       {"weightDecay", 1e-4},
                                       {"decay", "weightsAndGamma"}});
}

void begin_cifar10(Draft& draft) {
  begin_mxnet(draft, Json{{"epochs", 300}, {"data", {{"format", "cifar10"}}}});
  draft.put("script", Json{{kNetwork, "resnet"},
                           {kLayers, "110"},
                           {kDrops, "200,250"},
                           {kPad, "4"},
                           {kCrop, "1"},
                           {kFlip, "1"}});
}

void begin_mnist(Draft& draft) {
  begin_mxnet(draft, Json{{"epochs", 20}, {"data", {{"format", "mnist"}}}});
  draft.put("script", Json{{kNetwork, "mlp"}, {kDrops, "10"}, {kBatch, "64"}});
}

void begin_imagenet(Draft& draft) {
  begin_mxnet(draft, Json{{"epochs", 80}});
  draft.put("training.optimizer.lr", 0.1);
  draft.put("script", Json{{kNetwork, "resnet"}, {kLayers, "50"}, {kDrops, "30,60"}});
}

std::vector<std::string> list_of(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    if (end > start) parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

void set_schedule(Draft& draft) {
  const std::string drops = kept(draft, kDrops);
  const Json factor = job::plain_scalar(kept(draft, kFactor, "0.1"));
  if (drops.empty() || (factor.is_number() && factor.get<double>() >= 1)) return;
  if (drops.starts_with("pow")) {
    draft.put("training.lrSchedule", Json{{"name", "poly"}});
    if (drops.size() > 3)
      draft.put("training.lrSchedule.power", job::plain_scalar(drops.substr(3)));
    return;
  }
  Json milestones = Json::array();
  for (const std::string& part : list_of(drops)) milestones.push_back(job::plain_scalar(part));
  draft.put("training.lrSchedule",
            Json{{"name", "multistep"}, {"milestones", milestones}, {"gamma", factor}});
}

// Value. What MXNet's scripts make of a name: MXNet's own defaults but for rate, decay and, where
// they pass it on, momentum.
struct Optimizer {
  std::string_view theirs;
  std::string_view ours;
  bool has_form = false;
  bool has_momentum = false;
  double epsilon = 0;
};
constexpr auto kOptimizers = std::to_array<Optimizer>({
    {.theirs = "nag", .ours = "nesterov", .has_form = true, .has_momentum = true},
    {.theirs = "adam", .ours = "adam", .epsilon = 1e-8},
    {.theirs = "rmsprop", .ours = "rmsprop", .has_form = true, .epsilon = 1e-8},
    {.theirs = "adagrad", .ours = "adagrad", .has_form = true, .epsilon = 1e-7},
    {.theirs = "adadelta", .ours = "adadelta", .epsilon = 1e-5},
    {.theirs = "signum", .ours = "signum", .has_momentum = true},
    {.theirs = "signsgd", .ours = "signum"},
    {.theirs = "lars", .ours = "lars"},
    {.theirs = "lamb", .ours = "lamb"},
});

void set_optimizer(Draft& draft) {
  const std::string name = kept(draft, kOptimizer, "sgd");
  if (const std::string momentum = kept(draft, kMomentum); !momentum.empty())
    draft.put("training.optimizer.momentum", job::plain_scalar(momentum));
  if (name == "sgd") return;
  const auto* known = std::ranges::find(kOptimizers, name, &Optimizer::theirs);
  if (known == kOptimizers.end()) {
    draft.no_place("--optimizer " + name,
                   "not translated: say training.optimizer.name, whose words are another's rules");
    return;
  }
  draft.put("training.optimizer.name", known->ours);
  if (known->epsilon > 0) draft.put("training.optimizer.epsilon", known->epsilon);
  if (!known->has_form) draft.remove("training.optimizer.form");
  if (!known->has_momentum) draft.remove("training.optimizer.momentum");
  if (name == "signsgd" || name == "lars") draft.put("training.optimizer.momentum", 0);
  if (name == "adadelta") draft.put("training.optimizer.lr", 1);
}

// Names that a kvstore has, and what they make of the job.
void set_store(const Launch& launch, Draft& draft) {
  const std::string name = kept(draft, kStore, "device");
  const job::StrategyName* known = job::strategy_name(name);
  if (!known || !known->strategy) {
    draft.no_place("--kv-store " + name, "MXNet has no such kvstore");
    return;
  }
  draft.put("training.kvStore", name);
  if (*known->strategy == job::Strategy::kParameterServer) {
    use_servers(launch, draft);
    draft.note(kBecame, "--kv-store " + name,
               std::string("strategy: ") + std::string(known->write));
    return;
  }
  const Json* workers = draft.find(kWorkers);
  if (launch.starter == Starter::kMxnet && workers && *workers != 1)
    draft.no_place("--kv-store " + name,
                   "of one machine: launch.py starts trainings that know nothing of each other; "
                   "write dist_sync");
}

void set_batch(Draft& draft) {
  const std::string given = kept(draft, kBatch);
  const Json batch = given.empty() ? Json(128) : job::plain_scalar(given);
  draft.put("training.batchSize", batch);
  const int gpus = static_cast<int>(list_of(kept(draft, kGpus)).size());
  if (gpus < 2) return;
  draft.put("slotsPerWorker", gpus);
  if (batch.is_number_integer() && batch.get<int>() % gpus == 0) {
    draft.put("training.batchSize", batch.get<int>() / gpus);
    draft.note(kMind, "batchSize",
               fmt::format("a worker's {} over its {} slots", batch.dump(), gpus));
  } else {
    draft.no_place("--gpus",
                   fmt::format("a batch of {} can't be shared by {}", batch.dump(), gpus));
  }
}

void set_others(Draft& draft) {
  if (const std::string type = kept(draft, kType); type == "float16")
    draft.put("training.precision", "fp16");
  const std::string compression = kept(draft, kCompression, "none");
  if (compression == "none") return;
  draft.put("training.communication.compression", compression);
  draft.put("training.communication.compressionThreshold",
            job::plain_scalar(kept(draft, kThreshold, "0.5")));
  draft.note(kMind, "--gc-threshold",
             "theirs is of sums: set gradientReduction: mxnet-sum, or a smaller threshold");
}

void end_mxnet(const Launch& launch, Draft& draft) {
  set_schedule(draft);
  set_optimizer(draft);
  set_batch(draft);
  set_store(launch, draft);
  set_others(draft);
  if (kept(draft, kBenchmark, "0") != "0") {
    draft.put("training.data", Json{{"format", "synthetic"}});
    draft.remove("volumes.data");
  }
}

void set_resnet(Draft& draft, std::string_view prefix) {
  const std::string network = kept(draft, kNetwork);
  if (network != "resnet")
    draft.no_place("--network " + network, "the trainer has resnet for this data");
  draft.put("training.model", std::string(prefix) + kept(draft, kLayers));
}

void end_cifar10(const Launch& launch, Draft& draft) {
  set_resnet(draft, "cifar-resnet");
  set_augmentation(draft, 28);
  read_from_claim(draft, "cifar10");
  if (draft.find("training.data.augment"))
    draft.note(kMind, "train_cifar10.py",
               "cut and mirrored images without being asked until MXNet 1.0, and not since: "
               "training.data.augment is as before; --random-crop 0 --random-mirror 0 is as since");
  draft.note(kMind, "volumes.data", "the claim cifar10 must hold CIFAR-10's binary batches");
  end_mxnet(launch, draft);
}

void end_mnist(const Launch& launch, Draft& draft) {
  const std::string network = kept(draft, kNetwork);
  if (network != "mlp" && network != "lenet")
    draft.no_place("--network " + network, "the trainer has mlp and lenet for this data");
  draft.put("training.model", network);
  end_mxnet(launch, draft);
}

void end_imagenet(const Launch& launch, Draft& draft) {
  set_resnet(draft, "resnet");
  draft.put("training.data.format", "recordio");
  set_augmentation(draft, 224);
  read_from_claim(draft, "imagenet");
  draft.note(kMind, "volumes.data",
             "the claim imagenet must hold train.rec and val.rec; without --random-resized-crop "
             "their pictures must be of 224 x 224");
  draft.note(kMind, "training.model", "torchvision's, which is not MXNet's in all layers");
  end_mxnet(launch, draft);
}

constexpr auto kMxnetScripts = std::to_array<Script>({
    {"train_cifar10.py", "MXNet's train_cifar10.py", kMxnetOptions, begin_cifar10, end_cifar10},
    {"train_mnist.py", "MXNet's train_mnist.py", kMxnetOptions, begin_mnist, end_mnist},
    {"train_imagenet.py", "MXNet's train_imagenet.py", kMxnetOptions, begin_imagenet, end_imagenet},
});

}  // namespace

std::span<const Script> mxnet_scripts() { return kMxnetScripts; }

}  // namespace coxswain::convert
