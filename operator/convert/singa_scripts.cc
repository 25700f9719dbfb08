#include <array>

#include "operator/convert/script.h"
#include "operator/job/yaml.h"

// github.com/apache/singa/examples/cnn/train_mpi.py and its sibling of one machine; and the lab's
// own script, which takes no options.
namespace coxswain::convert {

namespace {

constexpr char kModel[] = "model";
constexpr char kData[] = "data";
constexpr char kOption[] = "option";
constexpr char kSparse[] = "sparse";
constexpr char kPrecision[] = "precision";
using enum Outcome;

constexpr auto kSingaOptions = std::to_array<Option>({
    {.names = "model", .answer = "training.model", .take = keep<kModel>},
    {.names = "data", .answer = "training.data.format: {}", .take = keep<kData>},
    {.names = "-m --max-epoch", .key = "training.epochs"},
    {.names = "-b --batch-size", .key = "training.batchSize"},
    {.names = "-l --learning-rate", .key = "training.optimizer.lr"},
    {.names = "-p", .answer = "training.precision", .take = keep<kPrecision>},
    {.names = "-w --world-size", .key = kWorkers},
    {.names = "-d --dist-option",
     .answer = "training.communication.compression",
     .take = keep<kOption>},
    {.names = "-s --sparsification",
     .answer = "training.communication.compressionRatio: {}",
     .take = keep<kSparse>},
    {.names = "-g --disable-graph",
     .values = 0,
     .outcome = kNotNeeded,
     .answer = "a model is always compiled into steps"},
    {.names = "-v --log-verbosity", .outcome = kNotNeeded, .answer = "report.logEverySteps"},
});

void begin_common(Draft& draft) {
  draft.put(
      "training",
      Json{
          {"model", "singa-cnn"},
          {"epochs", 10},
          {"batchSize", 64},
          {"optimizer", {{"name", "sgd"}, {"lr", 0.005}, {"momentum", 0.9}, {"weightDecay", 1e-5}}},
          {"lrSchedule", {{"scaling", "linear"}}},
          {"data", {{"format", "mnist"}, {"split", "split-batch"}, {"lastBatch", "discard"}}}});
}

void augment(Draft& draft) {
  draft.put("training.data.augment",
            Json::array({{{"pad-crop", {{"pad", 4}, {"mode", "symmetric"}, {"offsets", "singa"}}}},
                         "flip"}));
}

void end_common(const Launch&, Draft& draft) {
  draft.note(kMind, "opt.DistOpt(sgd)",
             "sums the gradients of its ranks where ours are averaged: lrSchedule.scaling: linear");
}

void begin_demo(Draft& draft) {
  begin_common(draft);
  augment(draft);
}

void set_data(Draft& draft) {
  const std::string data = kept(draft, kData, "mnist");
  if (data == "mnist") return;
  if (data != "cifar10") {
    draft.no_place(data, "the trainer reads mnist and cifar10");
    return;
  }
  draft.put("training.data.format", data);
  augment(draft);
  read_from_claim(draft, "cifar10");
  draft.note(kMind, "volumes.data", "the claim cifar10 must hold CIFAR-10's binary batches");
}

void set_model(Draft& draft) {
  const std::string model = kept(draft, kModel, "cnn");
  if (model != "cnn")
    draft.no_place(model,
                   "the trainer has SINGA's cnn; its mlp, resnet and xceptionnet are not "
                   "the trainer's");
  else if (kept(draft, kData, "mnist") != "mnist")
    draft.no_place(model, "singa-cnn is for the digits; write cifar-resnet20");
}

void set_exchange(Draft& draft) {
  const std::string option = kept(draft, kOption, "plain");
  if (option == "plain") return;
  if (option == "partialUpdate") {
    draft.no_place("-d " + option,
                   "theirs averages parts of the weights; training.communication.partial: P sums "
                   "one part of P of the gradients a step, in turn");
    return;
  }
  if (option != "half" && option != "sparseTopK") {
    draft.no_place("-d " + option, "of SINGA's options the trainer has plain, half and sparseTopK");
    return;
  }
  draft.put("training.communication.compression", option == "half" ? "fp16" : "topk");
  if (option == "sparseTopK")
    draft.put("training.communication.compressionRatio",
              job::plain_scalar(kept(draft, kSparse, "0.05")));
}

void end_train(const Launch& launch, Draft& draft) {
  set_model(draft);
  set_data(draft);
  set_exchange(draft);
  if (kept(draft, kPrecision, "float32") != "float32") draft.put("training.precision", "fp16");
  end_common(launch, draft);
}

constexpr auto kSingaScripts = std::to_array<Script>({
    {"mnist_dist_demo.py", "SINGA's lab of several ranks", {}, begin_demo, end_common},
    {"train_mpi.py train_multiprocess.py", "SINGA's train_mpi.py", kSingaOptions, begin_common,
     end_train},
});

}  // namespace

std::span<const Script> singa_scripts() { return kSingaScripts; }

}  // namespace coxswain::convert
