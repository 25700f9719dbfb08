#include <fmt/format.h>

#include <array>

#include "operator/convert/script.h"
#include "operator/job/yaml.h"

// The ImageNet lab's script, and github.com/NVIDIA/apex/examples/imagenet/main_amp.py with the
// options that it shares with torch's own example.
namespace coxswain::convert {

namespace {

constexpr char kArch[] = "arch";
constexpr char kRate[] = "rate";
using enum Outcome;

constexpr auto kLabOptions = std::to_array<Option>({
    {.names = "-n --nodes", .key = kWorkers},
    {.names = "-g --gpus",
     .outcome = kMind,
     .answer = "slotsPerWorker: {}; say device: cuda, else they compute on CPUs",
     .key = "slotsPerWorker"},
    {.names = "-nr --nr", .outcome = kNotNeeded, .answer = "the node's number is the pod's"},
    {.names = "--epochs", .key = "training.epochs"},
});

void begin_lab(Draft& draft) {
  draft.put(
      "training",
      Json{{"model", "resnet18"},
           {"epochs", 2},
           {"batchSize", 256},
           {"optimizer", {{"name", "sgd"}, {"lr", 1.0}, {"momentum", 0.9}, {"weightDecay", 1e-4}}},
           {"lrSchedule", {{"name", "onecycle"}, {"cycleMomentum", true}}}});
}

void end_lab(const Launch&, Draft& draft) {
  read_imagenet_folders(draft);
  draft.note(kMind, "amp.initialize(opt_level='O2')",
             "left out, since fp32 is faster on CPUs; training.ampLevel: O2 gives its numbers");
}

void join_norms(Draft& draft, const std::vector<std::string>&) {
  draft.put("training.batchNorm", "sync");
}

constexpr auto kTorchOptions = std::to_array<Option>({
    {.names = "DIR", .outcome = kMind, .answer = "the volume `data` holds the folders of images"},
    {.names = "-a --arch", .answer = "training.model: {}", .take = keep<kArch>},
    {.names = "-b --batch-size --b", .key = "training.batchSize"},
    {.names = "--lr --learning-rate",
     .answer = "training.optimizer.lr, times all ranks' batch / 256",
     .take = keep<kRate>},
    {.names = "--momentum", .key = "training.optimizer.momentum"},
    {.names = "--weight-decay --wd", .key = "training.optimizer.weightDecay"},
    {.names = "--epochs", .key = "training.epochs"},
    {.names = "--start-epoch --resume",
     .outcome = kNotNeeded,
     .answer = "the newest complete checkpoint is taken up at its step"},
    {.names = "-e --evaluate",
     .values = 0,
     .outcome = kNoPlace,
     .answer = "coxswain-trainer eval --checkpoint DIR"},
    {.names = "--pretrained",
     .values = 0,
     .outcome = kMind,
     .answer = "put a safetensors file of them beside the data, and say training.pretrained: FILE"},
    {.names = "-p --print-freq", .key = "training.report.logEverySteps"},
    {.names = "-j --workers", .key = "training.data.workers"},
    {.names = "--sync_bn --sync-bn",
     .values = 0,
     .answer = "training.batchNorm: sync",
     .take = join_norms},
    {.names = "--deterministic", .values = 0, .outcome = kNotNeeded, .answer = "always"},
    {.names = "--channels-last", .outcome = kNotNeeded, .answer = "the backend chooses"},
    {.names = "--opt-level", .key = "training.ampLevel"},
    {.names = "--loss-scale", .key = "training.lossScale"},
    {.names = "--keep-batchnorm-fp32",
     .outcome = kNotNeeded,
     .answer = "BatchNorm's statistics are float32"},
    {.names = "--local-rank", .outcome = kNotNeeded, .answer = "the rank's own"},
    {.names = "--prof",
     .outcome = kMind,
     .answer = "training.report.timeline: FILE tells some steps of all ranks"},
});

void begin_torch(Draft& draft) {
  draft.put("training",
            Json{{"epochs", 90},
                 {"batchSize", 256},
                 {"optimizer", {{"name", "sgd"}, {"momentum", 0.9}, {"weightDecay", 1e-4}}},
                 {"lrSchedule",
                  {{"name", "multistep"}, {"milestones", {30, 60, 80}}, {"warmupEpochs", 5}}}});
}

void end_torch(const Launch&, Draft& draft) {
  draft.put("training.model", kept(draft, kArch, "resnet18"));
  const Json rate = job::plain_scalar(kept(draft, kRate, "0.1"));
  const Json batch = *draft.find("training.batchSize");
  const bool numbers = rate.is_number() && batch.is_number_integer();
  const auto scaled = [&] {
    return fmt::format("{:.12g}", rate.get<double>() * batch.get<int>() * ranks_of(draft) / 256);
  };
  draft.put("training.optimizer.lr", numbers ? job::plain_scalar(scaled()) : rate);
  read_imagenet_folders(draft);
}

constexpr auto kTorchScripts = std::to_array<Script>({
    {"imagenet-distributed.py", "the ImageNet lab's imagenet-distributed.py", kLabOptions,
     begin_lab, end_lab},
    {"main_amp.py", "apex's main_amp.py", kTorchOptions, begin_torch, end_torch},
});

}  // namespace

std::span<const Script> torch_scripts() { return kTorchScripts; }

}  // namespace coxswain::convert
