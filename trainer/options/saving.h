#pragma once

#include "trainer/contract/words.h"

// What is kept of a training, and what ends it before its last epoch.
namespace coxswain {

// The evaluation's number by which an epoch is the best one so far.
enum class KeptBest { kNone, kAccuracy };
constexpr Words<KeptBest, 2> words_of(KeptBest) {
  return {{{KeptBest::kNone, "none"}, {KeptBest::kAccuracy, "accuracy"}}};
}

enum class WatchedMetric { kAccuracy, kLoss };
constexpr Words<WatchedMetric, 2> words_of(WatchedMetric) {
  return {{{WatchedMetric::kAccuracy, "accuracy"}, {WatchedMetric::kLoss, "loss"}}};
}

}  // namespace coxswain
