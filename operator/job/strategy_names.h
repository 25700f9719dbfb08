#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "operator/job/words.h"

// How others call what `spec.strategy` has two words for: TensorFlow's classes, PyTorch's, Horovod,
// and MXNet's kvstores.
namespace coxswain::job {

struct StrategyName {
  std::string_view name;
  std::optional<Strategy> strategy;    // nothing: there is none here
  std::optional<Framework> framework;  // whose word it is, where programs of it need variables
  std::string_view write;              // what to write instead, or why there is none
};

inline constexpr auto kStrategyNames = std::to_array<StrategyName>({
    {"MirroredStrategy", Strategy::kAllReduce, Framework::kTensorFlow,
     "AllReduce, and slotsPerWorker for its devices"},
    {"MultiWorkerMirroredStrategy", Strategy::kAllReduce, Framework::kTensorFlow, "AllReduce"},
    {"CentralStorageStrategy", Strategy::kAllReduce, Framework::kTensorFlow,
     "AllReduce: the same updates, with the weights on every rank"},
    {"OneDeviceStrategy", Strategy::kAllReduce, Framework::kTensorFlow,
     "AllReduce, and one worker of one slot"},
    {"ParameterServerStrategy", Strategy::kParameterServer, Framework::kTensorFlow,
     "ParameterServer, and training.parameterServer.mode: async, as its steps are"},
    {"TPUStrategy", std::nullopt, std::nullopt,
     "AllReduce: no TPU is driven here, ranks compute on CPUs"},
    {"DistributedDataParallel", Strategy::kAllReduce, Framework::kPyTorch, "AllReduce"},
    {"DataParallel", Strategy::kAllReduce, Framework::kPyTorch,
     "AllReduce, and slotsPerWorker for its devices"},
    {"Horovod", Strategy::kAllReduce, Framework::kHorovod, "AllReduce, with launcher: MPI"},
    {"local", Strategy::kAllReduce, std::nullopt, "AllReduce, and training.kvStore: local"},
    {"device", Strategy::kAllReduce, std::nullopt, "AllReduce, and training.kvStore: device"},
    {"nccl", Strategy::kAllReduce, std::nullopt, "AllReduce, and training.kvStore: nccl"},
    {"dist", Strategy::kParameterServer, std::nullopt,
     "ParameterServer, and training.kvStore: dist"},
    {"dist_sync", Strategy::kParameterServer, std::nullopt,
     "ParameterServer, and training.kvStore: dist_sync"},
    {"dist_device_sync", Strategy::kParameterServer, std::nullopt,
     "ParameterServer, and training.kvStore: dist_device_sync"},
    {"dist_sync_device", Strategy::kParameterServer, std::nullopt,
     "ParameterServer, and training.kvStore: dist_sync_device"},
    {"dist_async", Strategy::kParameterServer, std::nullopt,
     "ParameterServer, and training.kvStore: dist_async"},
    {"dist_async_device", Strategy::kParameterServer, std::nullopt,
     "ParameterServer, and training.kvStore: dist_async_device"},
});

// Also as people write it: tf.distribute.MirroredStrategy. nullptr: nobody's.
constexpr const StrategyName* strategy_name(std::string_view text) {
  text = text.substr(text.find_last_of('.') + 1);
  for (const StrategyName& one : kStrategyNames)
    if (one.name == text) return &one;
  return nullptr;
}

// What to write for a word that is none of Strategy's; empty: nobody knows it.
constexpr std::string_view advice_for(Strategy, std::string_view text) {
  const StrategyName* known = strategy_name(text);
  return known ? known->write : std::string_view();
}

}  // namespace coxswain::job
