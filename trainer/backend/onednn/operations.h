#pragma once

#include <cstdlib>
#include <optional>
#include <vector>

#include "trainer/backend/onednn/plan.h"

namespace coxswain::backend::onednn {

// Value. How an operation's steps come onto the tape, null for steps that it does not have; each
// stands in the operation's own file, record_<operation or family>.cc.
struct Recorder {
  void (*forward)(Plan& plan, const Step& step) = nullptr;
  void (*backward_data)(Plan& plan, const Step& step) = nullptr;
  void (*backward_weights)(Plan& plan, const Step& step) = nullptr;

  // The order in which the weight gradient is written, where it is not the canonical one.
  std::optional<Desc> (*weight_order)(const dnnl::engine& engine,
                                      const LayerSetting& setting) = nullptr;
  // The edges whose memory a backward step uses; null: all that it reads.
  std::vector<int> (*used_reads)(const Node& node, const Step& step) = nullptr;
};

extern const Recorder kConv2d;
extern const Recorder kDense;
extern const Recorder kBatchNorm;
extern const Recorder kRelu;
extern const Recorder kTanh;
extern const Recorder kGelu;
extern const Recorder kSigmoid;
extern const Recorder kSilu;
extern const Recorder kHardSwish;
extern const Recorder kHardSigmoid;
extern const Recorder kClip;
extern const Recorder kAdd;
extern const Recorder kMultiply;
extern const Recorder kConcat;
extern const Recorder kMaxPool;
extern const Recorder kAvgPool;
extern const Recorder kGlobalAvgPool;
extern const Recorder kFlatten;
extern const Recorder kDropout;
extern const Recorder kSoftmaxCrossEntropy;

inline const Recorder& recorder_of(graph::Op op) {
  using graph::Op;
  switch (op) {
    case Op::kInput:
      break;
    case Op::kConv2d:
      return kConv2d;
    case Op::kDense:
      return kDense;
    case Op::kBatchNorm:
      return kBatchNorm;
    case Op::kRelu:
      return kRelu;
    case Op::kTanh:
      return kTanh;
    case Op::kGelu:
      return kGelu;
    case Op::kSigmoid:
      return kSigmoid;
    case Op::kSilu:
      return kSilu;
    case Op::kHardSwish:
      return kHardSwish;
    case Op::kHardSigmoid:
      return kHardSigmoid;
    case Op::kClip:
      return kClip;
    case Op::kAdd:
      return kAdd;
    case Op::kMultiply:
      return kMultiply;
    case Op::kConcat:
      return kConcat;
    case Op::kMaxPool:
      return kMaxPool;
    case Op::kAvgPool:
      return kAvgPool;
    case Op::kGlobalAvgPool:
      return kGlobalAvgPool;
    case Op::kFlatten:
      return kFlatten;
    case Op::kDropout:
      return kDropout;
    case Op::kSoftmaxCrossEntropy:
      return kSoftmaxCrossEntropy;
  }
  std::abort();  // the input has no steps
}

// The sum of all contributions to d(output), times the derivative of the node's activation.
void record_join(Plan& plan, const Step& step);

}  // namespace coxswain::backend::onednn
