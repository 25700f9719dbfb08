#include <array>

#include "operator/convert/script.h"

// "Dive into Deep Learning", its lab of several machines: a script without options.
namespace coxswain::convert {

namespace {

constexpr double kWeightDecay = 5e-4;

void begin_gluon(Draft& draft) {
  draft.put("training", Json{{"model", "d2l-resnet18"},
                             {"epochs", 1},
                             {"batchSize", 1},
                             {"kvStore", "dist"},
                             {"optimizer",
                              {{"name", "sgd"}, {"form", "mxnet"}, {"lr", 0.1}, {"momentum", 0.9}}},
                             {"lrSchedule", {{"scaling", "linear"}}},
                             {"data", {{"format", "cifar10"}, {"split", "split-batch"}}}});
  draft.put(
      "training.data.augment",
      Json::array({{{"pad-crop", {{"pad", 4}}}},
                   "flip",
                   {{"normalise",
                     {{"mean", {0.4914, 0.4822, 0.4465}}, {"std", {0.2023, 0.1994, 0.2010}}}}}}));
}

// gluon divides by the batch of one worker, so the sum over workers is their number times the mean;
// what decays isn't summed.
void end_gluon(const Launch& launch, Draft& draft) {
  use_servers(launch, draft);
  draft.put("training.optimizer.weightDecay", kWeightDecay / ranks_of(draft));
  read_from_claim(draft, "cifar10");
  draft.note(Outcome::kMind, "kv.create('dist')",
             "strategy: ParameterServer; gradients are summed over workers, as lrSchedule.scaling: "
             "linear does, and the decay is not: divided by their number");
  draft.note(Outcome::kMind, "Resize, RandomResizedCrop", "pad-crop is the nearest");
  draft.note(Outcome::kMind, "volumes.data",
             "the claim cifar10 must hold CIFAR-10's binary batches: all of it, where the lab read "
             "800 images; `steps` ends a run earlier");
}

constexpr auto kGluonScripts = std::to_array<Script>({
    {"multimachine_cifar10_train.py",
     "D2L's multimachine_cifar10_train.py",
     {},
     begin_gluon,
     end_gluon},
});

}  // namespace

std::span<const Script> gluon_scripts() { return kGluonScripts; }

}  // namespace coxswain::convert
