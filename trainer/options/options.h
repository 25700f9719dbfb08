#pragma once

#include "trainer/contract/words.h"

// The values of the training configuration's options, and their words: declared here, for those who
// read and print them and for those who obey them.
namespace coxswain {

enum class Model {
  kSingaCnn,
  kKerasCnn,
  kMlp,
  kLenet,
  kD2lResnet18,
  kCifarResnet8,
  kCifarResnet20,
  kCifarResnet32,
  kCifarResnet44,
  kCifarResnet50,
  kCifarResnet56,
  kCifarResnet110,
  kCifarResnet164,
  kResnet18,
  kResnet34,
  kResnet50,
};
constexpr Words<Model, 16> words_of(Model) {
  return {{{Model::kSingaCnn, "singa-cnn"},
           {Model::kKerasCnn, "keras-cnn"},
           {Model::kMlp, "mlp"},
           {Model::kLenet, "lenet"},
           {Model::kD2lResnet18, "d2l-resnet18"},
           {Model::kCifarResnet8, "cifar-resnet8"},
           {Model::kCifarResnet20, "cifar-resnet20"},
           {Model::kCifarResnet32, "cifar-resnet32"},
           {Model::kCifarResnet44, "cifar-resnet44"},
           {Model::kCifarResnet50, "cifar-resnet50"},
           {Model::kCifarResnet56, "cifar-resnet56"},
           {Model::kCifarResnet110, "cifar-resnet110"},
           {Model::kCifarResnet164, "cifar-resnet164"},
           {Model::kResnet18, "resnet18"},
           {Model::kResnet34, "resnet34"},
           {Model::kResnet50, "resnet50"}}};
}

enum class DataFormat { kMnist, kCifar10, kSynthetic, kImageFolder, kRecordIo };
constexpr Words<DataFormat, 5> words_of(DataFormat) {
  return {{{DataFormat::kMnist, "mnist"},
           {DataFormat::kCifar10, "cifar10"},
           {DataFormat::kSynthetic, "synthetic"},
           {DataFormat::kImageFolder, "imagefolder"},
           {DataFormat::kRecordIo, "recordio"}}};
}

// Whether a JPEG's Exif may turn it.
enum class Orientation { kIgnore, kApply };
constexpr Words<Orientation, 2> words_of(Orientation) {
  return {{{Orientation::kIgnore, "ignore"}, {Orientation::kApply, "apply"}}};
}

// Whether a JPEG may be decoded at a half, a quarter or an eighth where what follows makes it
// smaller than that anyway: faster, and other pixels.
enum class Decoding { kFull, kScaled };
constexpr Words<Decoding, 2> words_of(Decoding) {
  return {{{Decoding::kFull, "full"}, {Decoding::kScaled, "scaled"}}};
}

// What a picture that can't be read does: it ends the run, or the next one takes its place.
enum class BadSamples { kFail, kSkip };
constexpr Words<BadSamples, 2> words_of(BadSamples) {
  return {{{BadSamples::kFail, "fail"}, {BadSamples::kSkip, "skip"}}};
}

// shuffle: step s is rows [sB, (s+1)B) of the epoch's permutation, rank r its r-th contiguous cut;
// independent of the world size. contiguous: rank r owns the r-th part of the data, n/N rows each,
// tail dropped, in the files' order (SINGA's partition). split-batch: as contiguous, shuffled
// inside the part each epoch (D2L's SplitBatchSampler).
enum class Split { kShuffle, kContiguous, kSplitBatch };
constexpr Words<Split, 3> words_of(Split) {
  return {{{Split::kShuffle, "shuffle"},
           {Split::kContiguous, "contiguous"},
           {Split::kSplitBatch, "split-batch"}}};
}

// What happens to rows that do not fill a batch: a short last step, none, or the start of the next
// epoch.
enum class LastBatch { kKeep, kDiscard, kRollover };
constexpr Words<LastBatch, 3> words_of(LastBatch) {
  return {{{LastBatch::kKeep, "keep"},
           {LastBatch::kDiscard, "discard"},
           {LastBatch::kRollover, "rollover"}}};
}

enum class BatchSemantics { kPerWorker, kGlobal };
constexpr Words<BatchSemantics, 2> words_of(BatchSemantics) {
  return {{{BatchSemantics::kPerWorker, "perWorker"}, {BatchSemantics::kGlobal, "global"}}};
}

enum class GradientReduction { kMean, kMxnetSum };
constexpr Words<GradientReduction, 2> words_of(GradientReduction) {
  return {{{GradientReduction::kMean, "mean"}, {GradientReduction::kMxnetSum, "mxnet-sum"}}};
}

enum class BatchNormScope { kLocal, kSync };
constexpr Words<BatchNormScope, 2> words_of(BatchNormScope) {
  return {{{BatchNormScope::kLocal, "local"}, {BatchNormScope::kSync, "sync"}}};
}

enum class OptimizerKind {
  kSgd,
  kNesterov,
  kAdam,
  kAdamW,
  kRmsProp,
  kAdaGrad,
  kAdaDelta,
  kSignum,
  kLars,
  kLamb,
  kMuon
};
constexpr Words<OptimizerKind, 11> words_of(OptimizerKind) {
  return {{{OptimizerKind::kSgd, "sgd"},
           {OptimizerKind::kNesterov, "nesterov"},
           {OptimizerKind::kAdam, "adam"},
           {OptimizerKind::kAdamW, "adamw"},
           {OptimizerKind::kRmsProp, "rmsprop"},
           {OptimizerKind::kAdaGrad, "adagrad"},
           {OptimizerKind::kAdaDelta, "adadelta"},
           {OptimizerKind::kSignum, "signum"},
           {OptimizerKind::kLars, "lars"},
           {OptimizerKind::kLamb, "lamb"},
           {OptimizerKind::kMuon, "muon"}}};
}
constexpr bool has_betas(OptimizerKind kind) {
  return kind == OptimizerKind::kAdam || kind == OptimizerKind::kAdamW ||
         kind == OptimizerKind::kLamb || kind == OptimizerKind::kMuon;
}
// A step of a tensor depends on all of it.
constexpr bool is_layerwise(OptimizerKind kind) {
  return kind == OptimizerKind::kLars || kind == OptimizerKind::kLamb ||
         kind == OptimizerKind::kMuon;
}

// Where the learning rate stands when it changes between steps, with G = g + wd w:
//   PyTorch: v = mu v + G;     SGD w -= lr v;  Nesterov w -= lr (G + mu v)
//   MXNet:   v = mu v - lr G;  SGD w += v;     Nesterov w += mu v - lr G
// RMSProp and AdaGrad divide by sqrt(n) + epsilon (PyTorch) or by sqrt(n + epsilon) (MXNet, and
// Keras with it). The others have one form.
enum class MomentumForm { kPyTorch, kMxnet };
constexpr Words<MomentumForm, 2> words_of(MomentumForm) {
  return {{{MomentumForm::kPyTorch, "pytorch"}, {MomentumForm::kMxnet, "mxnet"}}};
}

// Which segments weight decay touches: every trainable one (PyTorch, gluon, SINGA), weights alone
// (NVIDIA's recipe), or weights and gammas (MXNet's symbolic API).
enum class DecayScope { kAll, kWeights, kWeightsAndGamma };
constexpr Words<DecayScope, 3> words_of(DecayScope) {
  return {{{DecayScope::kAll, "all"},
           {DecayScope::kWeights, "weights"},
           {DecayScope::kWeightsAndGamma, "weightsAndGamma"}}};
}

enum class ScheduleKind {
  kConstant,
  kMultistep,
  kStep,
  kExponential,
  kPoly,
  kCosine,
  kCyclic,
  kOneCycle
};
constexpr Words<ScheduleKind, 8> words_of(ScheduleKind) {
  return {{{ScheduleKind::kConstant, "constant"},
           {ScheduleKind::kMultistep, "multistep"},
           {ScheduleKind::kStep, "step"},
           {ScheduleKind::kExponential, "exponential"},
           {ScheduleKind::kPoly, "poly"},
           {ScheduleKind::kCosine, "cosine"},
           {ScheduleKind::kCyclic, "cyclic"},
           {ScheduleKind::kOneCycle, "onecycle"}}};
}

// How high a cycle's peaks are: all the same, or each half of the one before (PyTorch's words).
enum class CycleMode { kTriangular, kTriangular2 };
constexpr Words<CycleMode, 2> words_of(CycleMode) {
  return {{{CycleMode::kTriangular, "triangular"}, {CycleMode::kTriangular2, "triangular2"}}};
}

enum class LrScaling { kNone, kLinear, kSqrt };
constexpr Words<LrScaling, 3> words_of(LrScaling) {
  return {{{LrScaling::kNone, "none"}, {LrScaling::kLinear, "linear"}, {LrScaling::kSqrt, "sqrt"}}};
}

enum class Precision { kFp32, kBf16, kFp16 };
constexpr Words<Precision, 3> words_of(Precision) {
  return {{{Precision::kFp32, "fp32"}, {Precision::kBf16, "bf16"}, {Precision::kFp16, "fp16"}}};
}

// Apex's names for what is computed in fp16: nothing; what products read and write (O1, O2, which
// differ in how PyTorch is told so); the weights too.
enum class AmpLevel { kNone, kO0, kO1, kO2, kO3 };
constexpr Words<AmpLevel, 5> words_of(AmpLevel) {
  return {{{AmpLevel::kNone, "none"},
           {AmpLevel::kO0, "O0"},
           {AmpLevel::kO1, "O1"},
           {AmpLevel::kO2, "O2"},
           {AmpLevel::kO3, "O3"}}};
}

enum class Convolution { kDirect, kWinograd };
constexpr Words<Convolution, 2> words_of(Convolution) {
  return {{{Convolution::kDirect, "direct"}, {Convolution::kWinograd, "winograd"}}};
}

// none: sums may be made in whatever order is fastest, and nothing is said of the same bits.
enum class Reproducible { kSameWorldSize, kAnyWorldSize, kNone };
constexpr Words<Reproducible, 3> words_of(Reproducible) {
  return {{{Reproducible::kSameWorldSize, "sameWorldSize"},
           {Reproducible::kAnyWorldSize, "anyWorldSize"},
           {Reproducible::kNone, "none"}}};
}

enum class CommunicationBackend { kAuto, kMpi, kTcp };
constexpr Words<CommunicationBackend, 3> words_of(CommunicationBackend) {
  return {{{CommunicationBackend::kAuto, "auto"},
           {CommunicationBackend::kMpi, "mpi"},
           {CommunicationBackend::kTcp, "tcp"}}};
}

// How workers and parameter servers train. sync: all steps together, with all-reduce's bits. async:
// each worker computes steps of its own, on weights that others change meanwhile. ssp: so too, but
// none gets further ahead of the slowest than a bound.
enum class ServerMode { kSync, kAsync, kSsp };
constexpr Words<ServerMode, 3> words_of(ServerMode) {
  return {{{ServerMode::kSync, "sync"}, {ServerMode::kAsync, "async"}, {ServerMode::kSsp, "ssp"}}};
}

// How others call the way that gradients are summed: MXNet's kvstores, TensorFlow's strategies,
// PyTorch's and Horovod's names; kNone: not given.
enum class KvStore {
  kNone,
  kLocal,
  kDevice,
  kNccl,
  kDist,
  kDistSync,
  kDistDeviceSync,
  kDistSyncDevice,
  kDistAsync,
  kDistAsyncDevice,
  kMirrored,
  kMultiWorkerMirrored,
  kCentralStorage,
  kOneDevice,
  kParameterServer,
  kDistributedDataParallel,
  kHorovod
};
constexpr Words<KvStore, 17> words_of(KvStore) {
  return {{{KvStore::kNone, "none"},
           {KvStore::kLocal, "local"},
           {KvStore::kDevice, "device"},
           {KvStore::kNccl, "nccl"},
           {KvStore::kDist, "dist"},
           {KvStore::kDistSync, "dist_sync"},
           {KvStore::kDistDeviceSync, "dist_device_sync"},
           {KvStore::kDistSyncDevice, "dist_sync_device"},
           {KvStore::kDistAsync, "dist_async"},
           {KvStore::kDistAsyncDevice, "dist_async_device"},
           {KvStore::kMirrored, "MirroredStrategy"},
           {KvStore::kMultiWorkerMirrored, "MultiWorkerMirroredStrategy"},
           {KvStore::kCentralStorage, "CentralStorageStrategy"},
           {KvStore::kOneDevice, "OneDeviceStrategy"},
           {KvStore::kParameterServer, "ParameterServerStrategy"},
           {KvStore::kDistributedDataParallel, "DistributedDataParallel"},
           {KvStore::kHorovod, "Horovod"}}};
}
constexpr ServerMode mode_of(KvStore store) {
  const bool apart = store == KvStore::kDistAsync || store == KvStore::kDistAsyncDevice ||
                     store == KvStore::kParameterServer;
  return apart ? ServerMode::kAsync : ServerMode::kSync;
}
constexpr bool has_servers(KvStore store) {
  return (store >= KvStore::kDist && store <= KvStore::kDistAsyncDevice) ||
         store == KvStore::kParameterServer;
}

// Of what ranks and servers say to each other over TCP.
enum class Encryption { kTls, kNone };
constexpr Words<Encryption, 2> words_of(Encryption) {
  return {{{Encryption::kTls, "tls"}, {Encryption::kNone, "none"}}};
}

// How gradients are written on their way to those who sum them. fp16, bf16: rounded. 2bit: a
// threshold, its negative or nothing (MXNet). 1bit: a sign, with one magnitude for all. topk: the
// largest alone (SINGA).
enum class Compression { kNone, kFp16, kBf16, kTwoBit, kOneBit, kTopK };
constexpr Words<Compression, 6> words_of(Compression) {
  return {{{Compression::kNone, "none"},
           {Compression::kFp16, "fp16"},
           {Compression::kBf16, "bf16"},
           {Compression::kTwoBit, "2bit"},
           {Compression::kOneBit, "1bit"},
           {Compression::kTopK, "topk"}}};
}

// Of these a sum over ranks can be told too; the others say too little of it.
constexpr bool suits_sums(Compression compression) {
  return compression != Compression::kTwoBit && compression != Compression::kOneBit;
}
constexpr const char* kOfSums = "none, fp16, bf16 or topk";

enum class Device { kCpu, kCuda, kAuto };
constexpr Words<Device, 3> words_of(Device) {
  return {{{Device::kCpu, "cpu"}, {Device::kCuda, "cuda"}, {Device::kAuto, "auto"}}};
}

}  // namespace coxswain
