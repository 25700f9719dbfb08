#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainer/contract/config/config_fields.h"
#include "trainer/contract/config/config_reader.h"

// For each key of the training configuration a change of it that must alter something, and in what
// configuration. A key without a row fails the tests that walk them all.
namespace coxswain::test {

using ConfigFlags = std::vector<contract::ConfigFlag>;

struct TrainingChange {
  std::string_view key;
  // "key=value" with blanks between; they come after kSmallTraining, and may replace parts of it.
  // "key=" leaves that part out. $DIR is a directory that the test fills.
  std::string_view with = "";
  // Each must differ from all others in what it does; flags as above. Empty: every word of the key.
  std::vector<std::string_view> values = {};
  int ranks = 1;
  int earlier_runs = 0;      // in the same directories, of an update more each
  int seconds_a_look = 0;    // that pass between two looks at the clock; else it stands still
  bool volume_goes = false;  // after the first update
};

inline constexpr std::string_view kSmallTraining =
    "model=mlp data.format=synthetic data.shape=[1,6,6] data.classes=4 data.size=40 batchSize=8 "
    "epochs=2 optimizer.lr=0.05 report.logEverySteps=1 threads=1 communication.bucketBytes=1048576 "
    "checkpoint.path=$DIR/saved";

inline const std::vector<TrainingChange>& training_changes() {
  static const std::vector<TrainingChange> kChanges = {
      // Every word is a model: tests/trainer/graph.
      {"model", "data.shape=[1,28,28] data.size=8 epochs=1", {"mlp", "lenet"}},
      {"modelFile", "model=", {"$DIR/one/net.yaml", "$DIR/two/net.yaml"}},
      {"data.format",
       "data.shape= data.classes= data.size= epochs=1",
       {"synthetic data.size=8", "mnist data.path=$DIR/one", "cifar10 data.path=$DIR/one",
        "imagefolder data.path=$DIR/one data.channels=1", "recordio data.path=$DIR/one"}},
      {"data.path",
       "data.format=mnist data.shape= data.classes= data.size= epochs=1",
       {"$DIR/one", "$DIR/two"}},
      {"data.evalPath",
       "data.format=mnist data.path=$DIR/one data.shape= data.classes= data.size= epochs=1",
       {"$DIR/one", "$DIR/two"}},
      {.key = "data.split", .ranks = 2},
      {"data.lastBatch", "data.size=44"},
      {"data.workers", "", {"1", "2"}},
      {"data.augment",
       "",
       {"[]", R"(["flip"])", R"(["pad-crop"])", R"([{"pad-crop":{"pad":2}}])",
        R"([{"pad-crop":{"mode":"symmetric"}}])", R"([{"pad-crop":{"offsets":"singa"}}])",
        R"([{"normalise":{"mean":[0.5],"std":[1]}}])",
        R"([{"normalise":{"mean":[0.5],"std":[0.5]}}])"}},
      {"data.evalAugment",
       R"(data.augment=[{"normalise":{"mean":[0.5],"std":[0.5]}}])",
       {R"([{"normalise":{"mean":[0.5],"std":[0.5]}}])",
        R"([{"normalise":{"mean":[0.5],"std":[1]}}])"}},
      {"data.orientation",
       R"(data.format=imagefolder data.path=$DIR/one data.shape= data.classes= data.size= epochs=1)"
       R"( data.augment=[{"resize":{"size":6,"fit":"stretch"}}])",
       {"ignore", "apply"}},
      {"data.decode",
       R"(data.format=recordio data.path=$DIR/one data.shape= data.classes= data.size= epochs=1)"
       R"( data.augment=[{"resize":{"size":6,"fit":"stretch"}}])",
       {"full", "scaled"}},
      {"data.badSamples",
       "data.format=imagefolder data.path=$DIR/two data.shape= data.classes= data.size= epochs=1",
       {"fail", "skip"}},
      {"data.limit", "", {"none", "16"}},
      {"data.channels",
       "data.format=mnist data.shape= data.classes= data.size= epochs=1",
       {"1", "3"}},
      {"data.shape", "", {"[1,6,6]", "[1,6,5]"}},
      {"data.classes", "", {"4", "5", "auto"}},
      {"data.size", "", {"40", "48"}},
      {"epochs", "", {"0", "1", "2"}},
      {"steps", "", {"3", "4"}},
      {"batchSize", "", {"8", "10"}},
      {.key = "batchSemantics", .ranks = 2},
      {.key = "gradientReduction"},
      {"accumulate", "", {"1", "2"}},
      {.key = "batchNorm", .with = "model=cifar-resnet8 data.shape=[3,8,8]", .ranks = 2},
      {"optimizer.name",
       "",
       {"sgd optimizer.momentum=0.9", "nesterov optimizer.momentum=0.9", "adam", "adamw", "rmsprop",
        "adagrad", "adadelta", "signum", "lars", "lamb", "muon"}},
      {"optimizer.form", "optimizer.momentum=0.9 lrSchedule.name=cosine"},
      {"optimizer.lr", "", {"0.05", "0.04"}},
      {"optimizer.momentum", "", {"0", "0.5"}},
      {"optimizer.beta1", "optimizer.name=adam", {"0.9", "0.8"}},
      {"optimizer.beta2", "optimizer.name=adam", {"0.999", "0.9"}},
      {"optimizer.rho", "optimizer.name=rmsprop", {"0.9", "0.99"}},
      {"optimizer.centered", "optimizer.name=rmsprop", {"false", "true"}},
      {"optimizer.epsilon", "optimizer.name=adam", {"1e-7", "1e-3"}},
      {"optimizer.weightDecay", "", {"0", "0.1"}},
      {"optimizer.decay", "model=cifar-resnet8 data.shape=[3,8,8] optimizer.weightDecay=0.1"},
      {"optimizer.eta", "optimizer.name=lars", {"0.001", "0.01"}},
      {"optimizer.clipGlobalNorm", "", {"0.01", "0.02"}},
      {"optimizer.clipValue", "", {"0.001", "0.002"}},
      {"ema.decay", "", {"0", "0.5", "0.9"}},
      {"lrSchedule.name",
       "",
       {"constant", "multistep lrSchedule.milestones=[1]", "step lrSchedule.stepEpochs=1.5",
        "exponential lrSchedule.gamma=0.5", "poly", "cosine", "cyclic lrSchedule.riseEpochs=1",
        "onecycle"}},
      {"lrSchedule.warmupEpochs", "", {"0", "1", "1.5"}},
      {.key = "lrSchedule.scaling", .ranks = 2},
      {"lrSchedule.milestones", "lrSchedule.name=multistep", {"[1]", "[0.5]", "[0.5,1]"}},
      {"lrSchedule.stepEpochs", "lrSchedule.name=step", {"1", "1.5"}},
      {"lrSchedule.riseEpochs", "lrSchedule.name=cyclic", {"0.5", "1"}},
      {"lrSchedule.cycleMode",
       "lrSchedule.name=cyclic lrSchedule.riseEpochs=0.5",
       {"triangular", "triangular2"}},
      {"lrSchedule.gamma", "lrSchedule.name=multistep lrSchedule.milestones=[1]", {"0.1", "0.5"}},
      {"lrSchedule.power", "lrSchedule.name=poly", {"1", "2"}},
      {"lrSchedule.minLr", "lrSchedule.name=cosine", {"0", "0.01"}},
      {"lrSchedule.pctStart", "lrSchedule.name=onecycle", {"0.3", "0.5"}},
      {"lrSchedule.divFactor", "lrSchedule.name=onecycle", {"25", "10"}},
      {"lrSchedule.finalDivFactor", "lrSchedule.name=onecycle", {"10000", "10"}},
      {"lrSchedule.cycleMomentum",
       "lrSchedule.name=onecycle optimizer.momentum=0.9",
       {"false", "true"}},
      {"lrSchedule.baseMomentum",
       "lrSchedule.name=onecycle lrSchedule.cycleMomentum=true",
       {"0.85", "0.8"}},
      {"lrSchedule.maxMomentum",
       "lrSchedule.name=onecycle lrSchedule.cycleMomentum=true",
       {"0.95", "0.9"}},
      {.key = "precision"},
      {.key = "ampLevel"},
      {"lossScale", "precision=fp16", {"dynamic", "tf", "1", "16777216"}},
      {"convolution",
       "model=cifar-resnet8 data.shape=[3,16,16] data.size=16 batchSize=16 epochs=1"},
      {"loss.labelSmoothing", "", {"0", "0.1"}},
      {"seed", "", {"42", "43"}},
      {"pretrained", "", {"$DIR/one/weights.safetensors", "$DIR/two/weights.safetensors"}},
      {"freeze", "", {"[]", R"(["fc1."])", R"(["fc2.bias"])"}},
      {"reproducible", "batchSemantics=global"},
      {"virtualShards", "batchSemantics=global reproducible=anyWorldSize", {"2", "4"}},
      {.key = "communication.backend"},
      {"communication.bucketBytes", "", {"4096", "1048576"}, 2},
      {"communication.encryption", "", {"tls", "none"}},
      // The others are names for these, or need servers.
      {"kvStore", "", {"none", "local"}},
      {.key = "communication.compression"},
      {"communication.compressionThreshold", "communication.compression=2bit", {"0.5", "0.1"}},
      {"communication.compressionRatio", "communication.compression=topk", {"0.05", "0.1"}},
      {"communication.partial",
       "model=cifar-resnet8 data.shape=[3,16,16] data.size=16 batchSize=8 epochs=1",
       {"1", "2"},
       2},
      {.key = "parameterServer.mode"},
      {"parameterServer.staleness", "parameterServer.mode=ssp", {"4", "0"}},
      {"evaluate.everyEpochs", "", {"1", "2", "0"}},
      {"evaluate.batchSize", "", {"auto", "3"}},
      {"metrics.topK", "data.classes=6", {"[1]", "[1,5]"}},
      {"earlyStopping.metric",
       "epochs=6 optimizer.lr=1e-5 earlyStopping.patience=1",
       {"accuracy", "loss"}},
      {"earlyStopping.patience", "epochs=6 optimizer.lr=1e-9", {"1", "2"}},
      {"nonFinite.skip", "optimizer.lr=1e6 epochs=8", {"0", "2"}},
      {"stepDeadlineSeconds", "", {"300", "20"}},
      {"report.logEverySteps", "", {"1", "2"}},
      {.key = "report.oneRankRate", .values = {"measure", "100", "200"}, .seconds_a_look = 1},
      {.key = "report.tensorboard", .values = {"curves", "other"}},
      {"report.histograms", "report.tensorboard=curves", {"false", "true"}},
      {.key = "report.html", .values = {"false", "true"}},
      {"report.timeline", "report.timelineSteps=2-3", {"one.json", "two.json"}},
      {"report.timelineSteps", "report.timeline=one.json", {"2-3", "2-4"}},
      {"device", "", {"cpu", "cuda"}},  // auto is one of them
      {"threads", "", {"1", "2"}},
      {"checkpoint.path", "", {"$DIR/saved", "$DIR/elsewhere"}},
      {"checkpoint.everySteps", "", {"2", "3"}},
      {"checkpoint.everyEpochs", "epochs=4", {"1", "2"}},
      {.key = "checkpoint.everySeconds", .values = {"5", "20"}, .seconds_a_look = 1},
      {.key = "checkpoint.keep", .values = {"2", "3"}, .earlier_runs = 4},
      {"checkpoint.keepEpochs", "data.size=8 epochs=6 checkpoint.keep=2", {"all", "1", "2"}},
      {.key = "checkpoint.best"},
      {.key = "checkpoint.from.epoch",
       .with = "data.size=8 epochs=4",
       .values = {"1", "2"},
       .earlier_runs = 3},
      {.key = "checkpoint.from.step", .values = {"1", "2"}, .earlier_runs = 3},
      {.key = "checkpoint.from.path",
       .values = {"$DIR/saved/step-00000001.g1", "$DIR/saved/step-00000002.g2"},
       .earlier_runs = 3},
      {.key = "checkpoint.resume", .values = {"true", "false"}, .earlier_runs = 1},
      {.key = "checkpoint.maxFailures", .values = {"1", "2"}, .volume_goes = true},
  };
  return kChanges;
}

inline const TrainingChange* change_of(std::string_view key) {
  const auto& all = training_changes();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& change) { return change.key == key; });
  return found == all.end() ? nullptr : &*found;
}

// The values of a change, as flags behind "key=".
inline std::vector<std::string_view> values_of(const TrainingChange& change) {
  if (!change.values.empty()) return change.values;
  for (const contract::Field& field : contract::kFields)
    if (field.key == change.key) return contract::choices_of(field);
  return {};
}

// The whole configuration with one of the values; a later flag replaces an earlier one.
inline ConfigFlags flags_of(const TrainingChange& change, std::string_view value,
                            const std::string& directory) {
  std::string text(kSmallTraining);
  text.append(" ").append(change.with);
  text.append(" ").append(change.key).append("=").append(value).append(" ");
  for (std::size_t at = 0; (at = text.find("$DIR")) != std::string::npos;)
    text.replace(at, 4, directory);
  ConfigFlags flags;
  for (std::size_t start = 0, end = 0; (end = text.find(' ', start)) != std::string::npos;
       start = end + 1) {
    if (end == start) continue;
    const std::size_t equals = text.find('=', start);
    const std::string key = text.substr(start, equals - start);
    std::erase_if(flags, [&](const auto& flag) { return flag.key == key; });
    const std::string given = text.substr(equals + 1, end - equals - 1);
    if (!given.empty()) flags.push_back({key, given});
  }
  return flags;
}

}  // namespace coxswain::test
