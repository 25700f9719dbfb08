#include "trainer/contract/config/config_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/test_flags.h"
#include "trainer/contract/config/yaml_text.h"

namespace coxswain::contract {

namespace {

constexpr std::string_view kHead = "model: singa-cnn\ndata: {format: mnist}\n";

TrainerConfig read(const std::string& yaml) { return read_config(yaml, "job.yaml", {}).config; }

// "<exit code> <message>" of what is thrown, "no error" otherwise.
std::string error_of(std::string_view yaml, const std::vector<std::string>& flags = {}) {
  try {
    read_config(yaml, "job.yaml", parse_config_flags(flags));
    return "no error";
  } catch (const Error& error) {
    EXPECT_LE(std::string_view(error.what()).size(), 450U) << error.what();
    return fmt::format("{} {}", static_cast<int>(error.code()), error.what());
  }
}

std::string augmentations() { return fmt::format("{}", fmt::join(augment::kNames, ", ")); }

struct BadCase {
  std::string input;
  std::string message;
};

}  // namespace

TEST(ConfigReader, reads_the_smallest_configuration_with_every_default) {
  TrainerConfig expected;
  expected.model = Model::kSingaCnn;
  expected.epochs = 10;
  EXPECT_EQ(read(std::string(kHead)), expected);
}

TEST(ConfigReader, reads_every_kind_of_value) {
  const TrainerConfig config = read(R"(
model: cifar-resnet20
data:
  format: cifar10
  path: /data/cifar
  evalPath: "/data/test set"
  split: split-batch
  lastBatch: rollover
  workers: 1
  augment:
  - pad-crop: {pad: 2, mode: symmetric, offsets: singa}
  - flip
  - normalise: {mean: [0.49, 0.48, 0.45], std: [0.2, 0.2, 0.2]}
epochs: 5
steps: 1000
batchSize: 128
batchSemantics: global
gradientReduction: mxnet-sum
accumulate: 2
batchNorm: sync
optimizer: {name: nesterov, form: mxnet, lr: 5e-2, momentum: 0.8, weightDecay: 5e-4, decay: weights,
  clipGlobalNorm: 2, clipValue: 0.5}
lrSchedule: {name: multistep, milestones: [2, 3.5], gamma: 0.2, warmupEpochs: 1}
precision: bf16
convolution: winograd
lossScale: 256
ema: {decay: 0.99}
loss: {labelSmoothing: 0.1}
seed: 18446744073709551615
communication: {backend: mpi, bucketBytes: 65536, compression: 2bit, compressionThreshold: 0.25,
  partial: 3}
evaluate: {everyEpochs: 2, batchSize: 100}
earlyStopping: {metric: loss, patience: 4}
nonFinite: {skip: 3}
stepDeadlineSeconds: 20
report: {logEverySteps: 7, oneRankRate: 8.5, tensorboard: curves, histograms: true, html: true,
  timeline: steps.json, timelineSteps: 5-9}
metrics: {topK: [1, 5]}
device: cpu
threads: 4
checkpoint: {path: ckpt, everySteps: 50, everyEpochs: 4, everySeconds: 10, keep: 2,
  keepEpochs: all, best: accuracy, from: {epoch: 3}, maxFailures: 1}
)");
  TrainerConfig expected;
  expected.model = Model::kCifarResnet20;
  expected.data.format = DataFormat::kCifar10;
  expected.data.path = "/data/cifar";
  expected.data.eval_path = "/data/test set";
  expected.data.split = Split::kSplitBatch;
  expected.data.last_batch = LastBatch::kRollover;
  expected.data.workers = 1;
  expected.data.augment = {
      augment::PadCrop{2, augment::PadMode::kSymmetric, augment::CropOffsets::kSinga},
      augment::Flip{}, augment::Normalise{{0.49, 0.48, 0.45}, {0.2, 0.2, 0.2}}};
  expected.epochs = 5;
  expected.steps = 1000;
  expected.batch_size = 128;
  expected.batch_semantics = BatchSemantics::kGlobal;
  expected.gradient_reduction = GradientReduction::kMxnetSum;
  expected.accumulate = 2;
  expected.batch_norm = BatchNormScope::kSync;
  expected.optimizer.name = OptimizerKind::kNesterov;
  expected.optimizer.form = MomentumForm::kMxnet;
  expected.optimizer.lr = 0.05;
  expected.optimizer.momentum = 0.8;
  expected.optimizer.weight_decay = 5e-4;
  expected.optimizer.decay = DecayScope::kWeights;
  expected.lr_schedule.name = ScheduleKind::kMultistep;
  expected.lr_schedule.warmup_epochs = 1;
  expected.lr_schedule.milestones = {2, 3.5};
  expected.lr_schedule.gamma = 0.2;
  expected.precision = Precision::kBf16;
  expected.convolution = Convolution::kWinograd;
  expected.optimizer.clip_global_norm = 2;
  expected.optimizer.clip_value = 0.5;
  expected.optimizer.ema_decay = 0.99;
  expected.loss_scale = 256;
  expected.label_smoothing = 0.1;
  expected.seed = 18446744073709551615U;
  expected.communication = {
      CommunicationBackend::kMpi, 65536, Encryption::kTls, Compression::kTwoBit, 0.25, 0.05, 3};
  expected.evaluate = {2, 100};
  expected.non_finite_skip = 3;
  expected.step_deadline_seconds = 20;
  expected.log_every_steps = 7;
  expected.one_rank_rate = 8.5;
  expected.tensorboard = "curves";
  expected.report_histograms = true;
  expected.report_html = true;
  expected.timeline = "steps.json";
  expected.timeline_steps = "5-9";
  expected.metrics.top_k = {1, 5};
  expected.device = Device::kCpu;
  expected.threads = 4;
  expected.early_stopping = {WatchedMetric::kLoss, 4};
  expected.checkpoint = {"ckpt", 50,           4,  10, 2, 0, KeptBest::kAccuracy, true,
                         3,      std::nullopt, "", 1};
  EXPECT_EQ(config, expected);
}

TEST(ConfigReader, fills_defaults_that_depend_on_other_keys) {
  const std::string head(kHead);
  EXPECT_EQ(read(head).optimizer.lr, 0.01);
  EXPECT_EQ(read(head + "optimizer: {name: adam}").optimizer.lr, 0.001);
  EXPECT_EQ(read(head + "optimizer: {name: adam, lr: 0.01}").optimizer.lr, 0.01);
  EXPECT_EQ(read(head + "optimizer: {name: nesterov}").optimizer.momentum, 0.9);
  EXPECT_EQ(read(head + "optimizer: {name: adamw}").optimizer.weight_decay, 0.01);
  EXPECT_EQ(read(head + "optimizer: {name: adagrad}").optimizer.epsilon, 1e-10);
  EXPECT_EQ(read(head + "precision: bf16").loss_scale, 1);
  EXPECT_EQ(read(head + "precision: fp16").loss_scale, 0);
  EXPECT_EQ(read(head + "precision: fp16\ndevice: cuda").loss_scale, 0);
  EXPECT_EQ(read(head + "precision: fp16\nlossScale: tf").loss_scale, -1);
  EXPECT_EQ(read(head + "precision: fp16\nparameterServer: {mode: async}").loss_scale, 1024);
  EXPECT_EQ(read(head + "ampLevel: O0").precision, Precision::kFp32);
  EXPECT_EQ(read(head + "ampLevel: O2").precision, Precision::kFp16);
  EXPECT_EQ(read(head + "ampLevel: O2").loss_scale, 0);
  EXPECT_EQ(read(head + "ampLevel: O3").loss_scale, 1);
  EXPECT_EQ(read(head + "optimizer: {name: adadelta}").optimizer.lr, 1);
  EXPECT_EQ(read(head + "optimizer: {name: signum}").optimizer.momentum, 0.9);
  EXPECT_EQ(read(head + "steps: 5").epochs, std::nullopt);
  EXPECT_EQ(read(head + "epochs: 0").epochs, 0);
  EXPECT_EQ(read(head + "threads: auto\ncommunication: {bucketBytes: auto}").threads, 0);
}

TEST(ConfigReader, says_what_is_wrong_with_a_value_and_where) {
  const std::vector<BadCase> cases{
      {"batchSize: x",
       "65 [config] job.yaml:3:12: batchSize: must be an integer, 1..1048576, got \"x\""},
      {"batchSize: \"64\"",
       "65 [config] job.yaml:3:12: batchSize: must be an integer, 1..1048576, got \"64\" in "
       "quotes; write it without them"},
      {"batchSize: 1e3",
       "65 [config] job.yaml:3:12: batchSize: must be an integer, 1..1048576, got \"1e3\""},
      {"batchSize: 6.5",
       "65 [config] job.yaml:3:12: batchSize: must be an integer, 1..1048576, got \"6.5\""},
      {"batchSize: true",
       "65 [config] job.yaml:3:12: batchSize: must be an integer, 1..1048576, got \"true\""},
      {"batchSize: 0",
       "65 [config] job.yaml:3:12: batchSize: out of range: must be an integer, 1..1048576, got 0"},
      {"batchSize: 2147483648",
       "65 [config] job.yaml:3:12: batchSize: out of range: must be an integer, 1..1048576, got "
       "2147483648"},
      {"batchSize: 9223372036854775808",
       "65 [config] job.yaml:3:12: batchSize: out of range: must be an integer, 1..1048576, got "
       "\"9223372036854775808\""},
      {"batchSize:",
       "65 [config] job.yaml:3:1: batchSize: must be an integer, 1..1048576, got nothing"},
      {"batchSize: [64]",
       "65 [config] job.yaml:3:12: batchSize: must be an integer, 1..1048576, got a list"},
      {"batchSize: {a: 64}",
       "65 [config] job.yaml:3:12: batchSize: must be an integer, 1..1048576, got a mapping"},
      {"epochs: -1",
       "65 [config] job.yaml:3:9: epochs: out of range: must be an integer, 0..1000000, got -1"},
      {"epochs: auto",
       "65 [config] job.yaml:3:9: epochs: must be an integer, 0..1000000, got \"auto\""},
      {"threads: 0",
       "65 [config] job.yaml:3:10: threads: out of range: must be \"auto\" or an integer, 1..1024, "
       "got 0"},
      {"threads: 1000000",
       "65 [config] job.yaml:3:10: threads: out of range: must be \"auto\" or an integer, 1..1024, "
       "got 1000000"},
      {"threads: many",
       "65 [config] job.yaml:3:10: threads: must be \"auto\" or an integer, 1..1024, got \"many\""},
      {"seed: 18446744073709551616",
       "65 [config] job.yaml:3:7: seed: out of range: must be an integer, 0..18446744073709551615, "
       "got \"18446744073709551616\""},
      {"seed: -1",
       "65 [config] job.yaml:3:7: seed: out of range: must be an integer, 0..18446744073709551615, "
       "got -1"},
      {"optimizer: {lr: 0}",
       "65 [config] job.yaml:3:17: optimizer.lr: out of range: must be above 0, at most 1000000, "
       "got 0"},
      {"optimizer: {lr: -1}",
       "65 [config] job.yaml:3:17: optimizer.lr: out of range: must be above 0, at most 1000000, "
       "got -1"},
      {"optimizer: {lr: nan}",
       "65 [config] job.yaml:3:17: optimizer.lr: must be a finite number, got \"nan\""},
      {"optimizer: {lr: .nan}",
       "65 [config] job.yaml:3:17: optimizer.lr: must be a finite number, got \".nan\""},
      {"optimizer: {lr: inf}",
       "65 [config] job.yaml:3:17: optimizer.lr: must be a finite number, got \"inf\""},
      {"optimizer: {lr: .inf}",
       "65 [config] job.yaml:3:17: optimizer.lr: must be a finite number, got \".inf\""},
      {"optimizer: {lr: 1e400}",
       "65 [config] job.yaml:3:17: optimizer.lr: must be a finite number, got \"1e400\""},
      {"optimizer: {lr: 0.1x}",
       "65 [config] job.yaml:3:17: optimizer.lr: must be a number, got \"0.1x\""},
      {"optimizer: {lr: '0.1'}",
       "65 [config] job.yaml:3:17: optimizer.lr: must be a number, got \"0.1\" in quotes; write it "
       "without them"},
      {"optimizer: {lr: ''}",
       "65 [config] job.yaml:3:17: optimizer.lr: must be a number, got \"\" in quotes; write it "
       "without them"},
      {"optimizer: {momentum: 1}",
       "65 [config] job.yaml:3:23: optimizer.momentum: out of range: must be at least 0, below 1, "
       "got 1"},
      {"optimizer: {name: sdg}",
       "65 [config] job.yaml:3:19: optimizer.name: must be one of sgd, nesterov, adam, adamw, "
       "rmsprop, adagrad, adadelta, signum, lars, lamb, muon, got \"sdg\"; did you mean sgd?"},
      {"optimizer: {name: ftrl}",
       "65 [config] job.yaml:3:19: optimizer.name: must be one of sgd, nesterov, adam, adamw, "
       "rmsprop, adagrad, adadelta, signum, lars, lamb, muon, got \"ftrl\""},
      {"optimizer: adam", "65 [config] job.yaml:3:1: optimizer: must be a mapping, got \"adam\""},
      {"optimizer:", "65 [config] job.yaml:3:1: optimizer: must be a mapping, got nothing"},
      {"precision: [bf16]",
       "65 [config] job.yaml:3:12: precision: must be one of fp32, bf16, fp16, got a list"},
      {"device: gpu",
       "65 [config] job.yaml:3:9: device: must be one of cpu, cuda, auto, got \"gpu\"; did you "
       "mean cpu?"},
      {"communication: {backend: nccl}",
       "65 [config] job.yaml:3:26: communication.backend: \"nccl\" is not in this version; write "
       "one of auto, mpi, tcp"},
      {"checkpoint: {resume: yes}",
       "65 [config] job.yaml:3:22: checkpoint.resume: must be true or false, got \"yes\""},
      {"checkpoint: {keep: 0}",
       "65 [config] job.yaml:3:20: checkpoint.keep: out of range: must be an integer, 2..10000, "
       "got 0"},
      {"checkpoint: {path: \"a\\nb\"}",
       "65 [config] job.yaml:3:20: checkpoint.path: holds a control character: \"a\\nb\""},
      {"checkpoint: {path: ''}", "65 [config] job.yaml:3:20: checkpoint.path: must not be empty"},
      {"checkpoint: {path: [a]}",
       "65 [config] job.yaml:3:20: checkpoint.path: must be text, got a list"},
      {"checkpoint: {path: " + std::string(5000, 'x') + "}",
       "65 [config] job.yaml:3:20: checkpoint.path: longer than 4096 bytes"},
      {"lrSchedule: {name: multistep, milestones: 3}",
       "65 [config] job.yaml:3:43: lrSchedule.milestones: must be a list of numbers, each above 0, "
       "at most 1000000, got \"3\""},
      {"lrSchedule: {name: multistep, milestones: [3, x]}",
       "65 [config] job.yaml:3:47: lrSchedule.milestones[1]: must be a number, got \"x\""},
  };
  for (const BadCase& bad : cases) {
    EXPECT_EQ(error_of(std::string(kHead) + bad.input), bad.message) << bad.input;
  }
}

TEST(ConfigReader, names_the_nearest_key_for_an_unknown_one) {
  const std::vector<BadCase> cases{
      {"batchsize: 1",
       "65 [config] job.yaml:3:1: batchsize: unknown key; did you mean \"batchSize\"?"},
      {"batch_size: 1",
       "65 [config] job.yaml:3:1: batch_size: unknown key; did you mean \"batchSize\"?"},
      {"optimiser: {lr: 1}",
       "65 [config] job.yaml:3:1: optimiser: unknown key; did you mean \"optimizer\"?"},
      {"optimizer: {momentun: 1}",
       "65 [config] job.yaml:3:13: optimizer.momentun: unknown key; did you mean "
       "\"optimizer.momentum\"?"},
      {"optimizer: {eps: 1}",
       "65 [config] job.yaml:3:13: optimizer.eps: unknown key; known here: name, form, lr, "
       "momentum, beta1, beta2, rho, centered, epsilon, weightDecay, decay, eta, clipGlobalNorm, "
       "clipValue"},
      {"lr: 0.1", "65 [config] job.yaml:3:1: lr: unknown key; did you mean \"optimizer.lr\"?"},
      {"epoch: 3", "65 [config] job.yaml:3:1: epoch: unknown key; did you mean \"epochs\"?"},
      {"zzz: {epochs: 3}",
       "65 [config] job.yaml:3:1: zzz: unknown key; known here: data, optimizer, ema, lrSchedule, "
       "loss, communication, parameterServer, evaluate, metrics, earlyStopping, nonFinite, report, "
       "checkpoint, model, modelFile, epochs, steps, batchSize, batchSemantics, gradientReduction, "
       "accumulate, batchNorm, precision, ampLevel, lossScale, convolution, seed, pretrained, "
       "freeze, reproducible, virtualShards, kvStore, stepDeadlineSeconds, device, threads"},
      {"compression: 2bit",
       "65 [config] job.yaml:3:1: compression: unknown key; did you mean "
       "\"communication.compression\"?"},
  };
  for (const BadCase& bad : cases) {
    EXPECT_EQ(error_of(std::string(kHead) + bad.input), bad.message) << bad.input;
  }
}

TEST(ConfigReader, checks_rules_across_keys) {
  const std::string synthetic = "model: mlp\ndata: {format: synthetic";
  const std::string mnist = "model: mlp\ndata: {format: mnist";
  const std::string any = std::string(kHead) + "reproducible: anyWorldSize\n";
  const std::vector<BadCase> cases{
      {std::string(kHead) + "lrSchedule: {name: step}",
       "65 [config] job.yaml:1:1: lrSchedule.stepEpochs: required with step, above 0: 30"},
      {std::string(kHead) + "lrSchedule: {name: exponential}",
       "65 [config] job.yaml:1:1: lrSchedule.gamma: required with exponential: 0.95"},
      {std::string(kHead) + "lrSchedule: {name: cyclic}",
       "65 [config] job.yaml:1:1: lrSchedule.riseEpochs: required with cyclic, above 0: 2"},
      {any, "65 [config] job.yaml:3:1: reproducible: anyWorldSize needs batchSemantics: global"},
      {any + "batchSemantics: global\nvirtualShards: 6",
       "65 [config] job.yaml:5:1: virtualShards: must be a power of two, 1..64, got 6"},
      {any + "batchSemantics: global\nvirtualShards: 128",
       "65 [config] job.yaml:5:16: virtualShards: out of range: must be an integer, 1..64, got "
       "128"},
      {any + "batchSemantics: global\nbatchSize: 4",
       "65 [config] job.yaml:5:1: batchSize: 4 must be at least virtualShards, 8"},
      {"model: mlp\ndata: {format: mnist, split: contiguous}\nreproducible: "
       "anyWorldSize\nbatchSemantics: global",
       "65 [config] job.yaml:3:1: reproducible: anyWorldSize needs data.split: shuffle"},
      {std::string(kHead) + "virtualShards: 4",
       "65 [config] job.yaml:3:1: virtualShards: only with reproducible anyWorldSize; here it is "
       "sameWorldSize"},
      {any + "batchSemantics: global\nparameterServer: {mode: async}",
       "65 [config] job.yaml:3:1: reproducible: anyWorldSize needs parameterServer.mode: sync"},
      {std::string(kHead) + "kvStore: dist_async\nparameterServer: {mode: sync}",
       "65 [config] job.yaml:3:1: kvStore: dist_async is parameterServer.mode async, and here that "
       "is sync: give one"},
      {std::string(kHead) + "modelFile: net.yaml",
       "65 [config] job.yaml:3:1: modelFile: not with model: give one of them"},
      {"modelFile: net.yaml\ndata: {format: synthetic}",
       "65 [config] job.yaml:1:1: data.shape: required with modelFile: [1, 28, 28]"},
      {std::string(kHead) + "ampLevel: O2\nprecision: bf16",
       "65 [config] job.yaml:3:1: ampLevel: O2 is precision fp16, and here that is bf16: give one"},
      {std::string(kHead) + "parameterServer: {mode: async}\nlossScale: dynamic",
       "65 [config] job.yaml:4:1: lossScale: must be a number unless parameterServer.mode is sync: "
       "no step is all ranks'"},
      {std::string(kHead) + "lossScale: static",
       "65 [config] job.yaml:3:12: lossScale: must be a number, got \"static\""},
      {std::string(kHead) + "lossScale: 0.5",
       "65 [config] job.yaml:3:12: lossScale: out of range: must be 1..16777216, got 0.5"},
      {std::string(kHead) + "device: cuda\ncommunication: {compression: fp16}",
       "65 [config] job.yaml:3:1: device: cuda sums gradients whole and as they are in this "
       "version: leave communication.compression and partial out, or write cpu"},
      {any + "batchSemantics: global\ncommunication: {compression: fp16}",
       "65 [config] job.yaml:3:1: reproducible: anyWorldSize needs communication.compression: "
       "none: what is left out is each rank's"},
      {any + "batchSemantics: global\ncommunication: {partial: 2}",
       "65 [config] job.yaml:3:1: reproducible: anyWorldSize needs communication.partial: 1: what "
       "is left out is each rank's"},
      {std::string(kHead) + "communication: {compression: topk, compressionThreshold: 0.1}",
       "65 [config] job.yaml:3:36: communication.compressionThreshold: only with "
       "communication.compression 2bit; here it is topk"},
      {std::string(kHead) + "communication: {compressionRatio: 0.1}",
       "65 [config] job.yaml:3:17: communication.compressionRatio: only with "
       "communication.compression topk; here it is none"},
      {std::string(kHead) + "communication: {compression: topk, compressionRatio: 0.3}",
       "65 [config] job.yaml:3:54: communication.compressionRatio: out of range: must be above 0, "
       "at most 0.25, got 0.3"},
      {std::string(kHead) + "parameterServer: {staleness: 2}",
       "65 [config] job.yaml:3:19: parameterServer.staleness: only with parameterServer.mode ssp; "
       "here it is sync"},
      {std::string(kHead) + "parameterServer: {mode: ssp, staleness: 1001}",
       "65 [config] job.yaml:3:41: parameterServer.staleness: out of range: must be an integer, "
       "0..1000, got 1001"},
      {std::string(kHead) + "optimizer: {name: adam, momentum: 0.9}",
       "65 [config] job.yaml:3:25: optimizer.momentum: only with optimizer.name one of sgd, "
       "nesterov, rmsprop, signum, lars, muon; here it is adam"},
      {std::string(kHead) + "optimizer: {beta1: 0.9}",
       "65 [config] job.yaml:3:13: optimizer.beta1: only with optimizer.name one of adam, adamw, "
       "lamb, muon; here it is sgd"},
      {std::string(kHead) + "optimizer: {name: nesterov, momentum: 0}",
       "65 [config] job.yaml:3:29: optimizer.momentum: must be above 0 with nesterov"},
      {std::string(kHead) + "lrSchedule: {name: multistep}",
       "65 [config] job.yaml:1:1: lrSchedule.milestones: required with multistep: [30, 60]"},
      {std::string(kHead) + "lrSchedule: {name: multistep, milestones: [3, 3]}",
       "65 [config] job.yaml:3:31: lrSchedule.milestones: must rise"},
      {std::string(kHead) + "lrSchedule: {name: cosine, minLr: 0.1}",
       "65 [config] job.yaml:3:28: lrSchedule.minLr: 0.1 must be at most optimizer.lr, 0.01"},
      {std::string(kHead) + "lrSchedule: {name: onecycle, maxMomentum: 0.9}",
       "65 [config] job.yaml:3:30: lrSchedule.maxMomentum: only with lrSchedule.cycleMomentum "
       "true; here it is false"},
      {std::string(kHead) + "lrSchedule: {name: onecycle, cycleMomentum: true, maxMomentum: 0.8}",
       "65 [config] job.yaml:1:1: lrSchedule.baseMomentum: 0.85 must be at most maxMomentum, 0.8"},
      {std::string(kHead) + "metrics: {topK: [5]}",
       "65 [config] job.yaml:3:11: metrics.topK: must be [1] or [1, 5]"},
      {std::string(kHead) + "report: {histograms: true}",
       "65 [config] job.yaml:3:10: report.histograms: needs report.tensorboard, the directory that "
       "they go to"},
      {std::string(kHead) + "report: {tensorboard: ../curves}",
       "65 [config] job.yaml:3:10: report.tensorboard: must lie under the checkpoints' path: "
       "curves, not /tmp or .."},
      {std::string(kHead) + "lrSchedule: {scaling: linear}\nbatchSemantics: global",
       "65 [config] job.yaml:3:14: lrSchedule.scaling: must be none with batchSemantics global: "
       "the batch doesn't grow with the ranks"},
      {synthetic + ", shape: [1, 28]}",
       "65 [config] job.yaml:2:27: data.shape: must be three numbers, [C, H, W], got 2"},
      {synthetic + ", shape: [1, 28, 0]}",
       "65 [config] job.yaml:2:42: data.shape[2]: out of range: must be 1..4096, got 0"},
      {synthetic + ", shape: [1, 28, 2.5]}",
       "65 [config] job.yaml:2:42: data.shape[2]: must be an integer, got 2.5"},
      {synthetic + ", path: /data}",
       "65 [config] job.yaml:2:27: data.path: only with data.format one of mnist, cifar10, "
       "imagefolder, recordio; here it "
       "is synthetic"},
      {synthetic + ", shape: [1, 8, 12], augment: [{pad-crop: {pad: 8}}]}",
       "65 [config] job.yaml:2:46: data.augment: pad 8 must be below the image's side, 8"},
      {mnist + ", classes: 10}",
       "65 [config] job.yaml:2:23: data.classes: only with data.format synthetic; here it is "
       "mnist"},
      {mnist + ", augment: [{pad-crop: {pad: 28}}]}",
       "65 [config] job.yaml:2:23: data.augment: pad 28 must be below the image's side, 28"},
      {mnist + ", channels: 3, augment: [{normalise: {mean: [0], std: [1]}}]}",
       "65 [config] job.yaml:2:36: data.augment: normalise needs as many mean and std as channels "
       "(3), got 1 and 1"},
      {mnist + ", augment: [{normalise: {mean: [0], std: [1]}}, flip]}",
       "65 [config] job.yaml:2:23: data.augment: normalise must come last, and once"},
      {"data: {format: mnist}",
       "65 [config] job.yaml:1:1: model: required unless modelFile is given: one of singa-cnn, "
       "keras-cnn, mlp, "
       "lenet, d2l-resnet18, cifar-resnet8, cifar-resnet20, cifar-resnet32, cifar-resnet44, "
       "cifar-resnet50, cifar-resnet56, cifar-resnet110, cifar-resnet164, resnet18, resnet34, "
       "resnet50"},
      {"model: mlp",
       "65 [config] job.yaml:1:1: data.format: required: one of mnist, cifar10, synthetic, "
       "imagefolder, recordio"},
      {"",
       "65 [config] job.yaml:1:1: model: required unless modelFile is given: one of singa-cnn, "
       "keras-cnn, mlp, "
       "lenet, d2l-resnet18, cifar-resnet8, cifar-resnet20, cifar-resnet32, cifar-resnet44, "
       "cifar-resnet50, cifar-resnet56, cifar-resnet110, cifar-resnet164, resnet18, resnet34, "
       "resnet50 (and 1 more)"},
      {"[a, b]", "65 [config] job.yaml:1:1: must be a mapping, got a list"},
      {"text", "65 [config] job.yaml:1:1: must be a mapping, got \"text\""},
  };
  for (const BadCase& bad : cases) EXPECT_EQ(error_of(bad.input), bad.message) << bad.input;
}

TEST(ConfigReader, accepts_what_the_rules_allow) {
  const std::string head(kHead);
  for (const std::string yaml :
       {"reproducible: anyWorldSize\nbatchSemantics: global\nvirtualShards: 64\nbatchSize: 64",
        "lrSchedule: {name: onecycle, cycleMomentum: true, baseMomentum: 0.85, maxMomentum: 0.95}",
        "lrSchedule: {name: poly, power: 2, minLr: 0.001}", "lrSchedule: {scaling: linear}",
        "optimizer: {name: adam, beta1: 0, epsilon: 1e-8}", "steps: 0", "--- # only a comment\n"}) {
    const bool marker = yaml.starts_with("---");
    EXPECT_EQ(error_of(marker ? yaml + head : head + yaml), "no error") << yaml;
  }
}

TEST(ConfigReader, says_what_is_wrong_with_an_augmentation) {
  const std::vector<BadCase> cases{
      {"flip", "4:12: data.augment: must be a list of " + augmentations() + ", got \"flip\""},
      {"[flop]", "4:13: data.augment[0].flop: unknown augmentation; one of " + augmentations()},
      {"[flip, {flip: {p: 1}}]", "4:26: data.augment[1].flip: takes no options"},
      {"[{pad-crop: {pads: 4}}]",
       "4:25: data.augment[0].pad-crop: unknown option \"pads\"; one of pad, mode, offsets, size, "
       "fill"},
      {"[{pad-crop: {pad: -1}}]",
       "4:30: data.augment[0].pad-crop.pad: must be an integer, 0..4096, got \"-1\""},
      {"[{pad-crop: {pad: 1.5}}]",
       "4:30: data.augment[0].pad-crop.pad: must be an integer, 0..4096, got \"1.5\""},
      {"[{pad-crop: {mode: mirror}}]",
       "4:31: data.augment[0].pad-crop.mode: must be one of zero, symmetric, reflect, fill, "
       "got \"mirror\""},
      {"[{pad-crop: {offsets: 3}}]",
       "4:34: data.augment[0].pad-crop.offsets: must be one of inclusive, singa, got \"3\""},
      {"[{pad-crop: 4}]", "4:24: data.augment[0].pad-crop: must be a mapping, got \"4\""},
      {"[{pad-crop: {}, flip: {}}]", "4:13: data.augment[0]: must be one of " + augmentations() +
                                         ", or one of them with its "
                                         "options"},
      {"[[flip]]", "4:13: data.augment[0]: must be one of " + augmentations() +
                       ", or one of them with its "
                       "options"},
      {"[normalise]",
       "4:13: data.augment[0].normalise.mean: must be a list of numbers, one a channel (and 1 "
       "more)"},
      {"[{normalise: {mean: [x], std: [1]}}]",
       "4:33: data.augment[0].normalise.mean: must be a number, got \"x\""},
      {"[{normalise: {mean: [0], std: [0]}}]",
       "4:43: data.augment[0].normalise.std: must be above 0, got 0"},
      {"[flip, flip, flip, flip, flip, flip, flip, flip, flip, flip, flip, flip, flip, flip, flip, "
       "flip, flip]",
       "4:12: data.augment: longer than 16 entries"},
  };
  for (const BadCase& bad : cases) {
    EXPECT_EQ(error_of("model: mlp\ndata:\n  format: mnist\n  augment: " + bad.input),
              "65 [config] job.yaml:" + bad.message)
        << bad.input;
  }
}

TEST(ConfigReader, lists_every_error_of_a_job_with_its_line) {
  const YAML::Node job = load_yaml(R"(spec:
  training:
    model: singa-cn
    data: {format: mnist, sise: 3}
    batchSize: 0
    checkpoint: {keep: 3}
)",
                                   "job.yaml");
  std::vector<ConfigError> errors;
  read_training(job["spec"]["training"],
                {.file = "job.yaml", .prefix = "spec.training.", .in_job = true}, errors);
  std::vector<std::string> texts;
  for (const ConfigError& error : errors) texts.push_back(to_text(error, "job.yaml"));
  ASSERT_EQ(texts.size(), 4U);
  EXPECT_TRUE(texts[0].starts_with("job.yaml:3:12: spec.training.model: must be one of"));
  EXPECT_TRUE(texts[0].ends_with("got \"singa-cn\"; did you mean singa-cnn?"));
  EXPECT_EQ(texts[1],
            "job.yaml:4:27: spec.training.data.sise: unknown key; did you mean \"data.size\"?");
  EXPECT_EQ(texts[2],
            "job.yaml:5:16: spec.training.batchSize: out of range: must be an integer, 1..1048576, "
            "got 0");
  EXPECT_EQ(texts[3], "job.yaml:6:5: spec.training.checkpoint: belongs to spec.checkpoint");
}

TEST(ConfigReader, takes_one_place_to_begin_from) {
  const auto problem_of = [](const std::string& checkpoint) -> std::string {
    try {
      read_config("model: mlp\ndata: {format: mnist}\ncheckpoint: " + checkpoint, "job.yaml", {});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(problem_of("{from: {step: 7}}"), "");
  EXPECT_EQ(problem_of("{from: {epoch: 1, step: 7}}"),
            "[config] job.yaml:3:21: checkpoint.from.epoch: give one of epoch, step and path");
  EXPECT_EQ(
      problem_of("{resume: false, from: {path: x}}"),
      "[config] job.yaml:3:36: checkpoint.from.path: not with checkpoint.resume: false, which "
      "starts anew");
  EXPECT_EQ(problem_of("{keepEpochs: some}"),
            "[config] job.yaml:3:26: checkpoint.keepEpochs: must be \"all\" or an integer, "
            "1..1000000, got \"some\"");
}

TEST(ConfigReader, reads_the_checkpoint_section_of_a_job) {
  const YAML::Node node = load_yaml("{everySteps: 5, everyEpochs: 2, keep: 4}", "job.yaml");
  const ConfigSource source{.file = "job.yaml", .prefix = "spec.", .in_job = true};
  TrainerConfig config;
  std::vector<ConfigError> errors;
  read_checkpoint(node, source, config, errors);
  EXPECT_TRUE(errors.empty());
  EXPECT_EQ(config.checkpoint.every_steps, 5);
  EXPECT_EQ(config.checkpoint.every_epochs, 2);
  EXPECT_EQ(config.checkpoint.keep, 4);
  EXPECT_EQ(config.checkpoint.every_seconds, 60);

  read_checkpoint(load_yaml("{kep: 5}", "job.yaml"), source, config, errors);
  read_checkpoint(load_yaml("5", "job.yaml"), source, config, errors);
  ASSERT_EQ(errors.size(), 2U);
  EXPECT_EQ(to_text(errors[0], "job.yaml"),
            "job.yaml:1:2: spec.checkpoint.kep: unknown key; did you mean \"checkpoint.keep\"?");
  EXPECT_EQ(to_text(errors[1], "job.yaml"),
            "job.yaml:1:1: spec.checkpoint: must be a mapping, got \"5\"");
}

TEST(ConfigReader, reads_a_file_or_says_why_not) {
  const test::TemporaryDirectory directory;
  const auto file = directory.path() / "config.yaml";
  std::ofstream(file) << kHead;
  EXPECT_EQ(read_config_file(file, {}).config.model, Model::kSingaCnn);

  const auto message = [](const std::filesystem::path& path) -> std::string {
    try {
      read_config_file(path, {});
      return "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput);
      return error.what();
    }
  };
  const std::string missing = (directory.path() / "none").string();
  EXPECT_EQ(message(missing), "[config] " + missing + ": not found");
  EXPECT_EQ(message(directory.path()), "[config] " + directory.path().string() + ": is not a file");
  const auto big = directory.path() / "big";
  std::ofstream(big) << std::string(kMaxYamlBytes + 1, ' ');
  EXPECT_EQ(message(big), "[config] " + big.string() + ": above the limit of 1 MiB");
}

}  // namespace coxswain::contract
