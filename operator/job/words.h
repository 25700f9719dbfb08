#pragma once

#include "trainer/contract/words.h"
#include "trainer/contract/worker/worker_env.h"
#include "trainer/options/saving.h"

// The enumerations of a job, and the words that users write for them.
namespace coxswain::job {

enum class Strategy { kAllReduce, kParameterServer };
constexpr Words<Strategy, 2> words_of(Strategy) {
  return {{{Strategy::kAllReduce, "AllReduce"}, {Strategy::kParameterServer, "ParameterServer"}}};
}

enum class Launcher { kMpi, kEnv };
constexpr Words<Launcher, 2> words_of(Launcher) {
  return {{{Launcher::kMpi, "MPI"}, {Launcher::kEnv, "Env"}}};
}

using Role = contract::Role;

enum class CleanPodPolicy { kRunning, kAll, kNone };
constexpr Words<CleanPodPolicy, 3> words_of(CleanPodPolicy) {
  return {{{CleanPodPolicy::kRunning, "Running"},
           {CleanPodPolicy::kAll, "All"},
           {CleanPodPolicy::kNone, "None"}}};
}

enum class SuccessPolicy { kRankZero, kAllWorkers };
constexpr Words<SuccessPolicy, 2> words_of(SuccessPolicy) {
  return {{{SuccessPolicy::kRankZero, "RankZero"}, {SuccessPolicy::kAllWorkers, "AllWorkers"}}};
}

// Of those that put one object beside the pods: Volcano and coscheduling. Kueue reads pods alone.
enum class GangScheduler { kNone, kVolcano, kCoscheduling, kKueue };
constexpr Words<GangScheduler, 4> words_of(GangScheduler) {
  return {{{GangScheduler::kNone, "None"},
           {GangScheduler::kVolcano, "Volcano"},
           {GangScheduler::kCoscheduling, "Coscheduling"},
           {GangScheduler::kKueue, "Kueue"}}};
}
constexpr bool has_pod_group(GangScheduler gang) {
  return gang == GangScheduler::kVolcano || gang == GangScheduler::kCoscheduling;
}

enum class Framework { kPyTorch, kTensorFlow, kHorovod, kMxnet };
constexpr Words<Framework, 4> words_of(Framework) {
  return {{{Framework::kPyTorch, "PyTorch"},
           {Framework::kTensorFlow, "TensorFlow"},
           {Framework::kHorovod, "Horovod"},
           {Framework::kMxnet, "MXNet"}}};
}

enum class BatchOnResize { kKeep, kPerWorker };
constexpr Words<BatchOnResize, 2> words_of(BatchOnResize) {
  return {{{BatchOnResize::kKeep, "keep"}, {BatchOnResize::kPerWorker, "perWorker"}}};
}

enum class FailureAction { kFail, kRestart, kRestartIgnoringBackoffLimit };
constexpr Words<FailureAction, 3> words_of(FailureAction) {
  return {{{FailureAction::kFail, "Fail"},
           {FailureAction::kRestart, "Restart"},
           {FailureAction::kRestartIgnoringBackoffLimit, "RestartIgnoringBackoffLimit"}}};
}

}  // namespace coxswain::job
