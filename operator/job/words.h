#pragma once

#include "operator/job/observed.h"
#include "operator/job/training_job.h"
#include "trainer/contract/words.h"

// The words of each enumeration, as users write them.
namespace coxswain::job {

inline constexpr Words<Strategy, 2> kStrategies{{
    {Strategy::kAllReduce, "AllReduce"},
    {Strategy::kParameterServer, "ParameterServer"},
}};
inline constexpr Words<Launcher, 2> kLaunchers{{{Launcher::kMpi, "MPI"}, {Launcher::kEnv, "Env"}}};
inline constexpr Words<Role, 2> kRoles{{{Role::kWorker, "Worker"}, {Role::kServer, "Server"}}};
inline constexpr Words<CleanPodPolicy, 3> kCleanPodPolicies{{
    {CleanPodPolicy::kRunning, "Running"},
    {CleanPodPolicy::kAll, "All"},
    {CleanPodPolicy::kNone, "None"},
}};
inline constexpr Words<SuccessPolicy, 2> kSuccessPolicies{{
    {SuccessPolicy::kRankZero, "RankZero"},
    {SuccessPolicy::kAllWorkers, "AllWorkers"},
}};
inline constexpr Words<GangScheduler, 3> kGangSchedulers{{
    {GangScheduler::kNone, "None"},
    {GangScheduler::kVolcano, "Volcano"},
    {GangScheduler::kCoscheduling, "Coscheduling"},
}};
inline constexpr Words<Framework, 3> kFrameworks{{
    {Framework::kPyTorch, "PyTorch"},
    {Framework::kTensorFlow, "TensorFlow"},
    {Framework::kHorovod, "Horovod"},
}};
inline constexpr Words<BatchOnResize, 2> kBatchesOnResize{{
    {BatchOnResize::kKeep, "keep"},
    {BatchOnResize::kPerWorker, "perWorker"},
}};
inline constexpr Words<FailureAction, 3> kFailureActions{{
    {FailureAction::kFail, "Fail"},
    {FailureAction::kRestart, "Restart"},
    {FailureAction::kRestartIgnoringBackoffLimit, "RestartIgnoringBackoffLimit"},
}};
inline constexpr Words<Phase, 9> kPhases{{
    {Phase::kNone, ""},
    {Phase::kInvalid, "Invalid"},
    {Phase::kSuspended, "Suspended"},
    {Phase::kQueued, "Queued"},
    {Phase::kStarting, "Starting"},
    {Phase::kRunning, "Running"},
    {Phase::kRestarting, "Restarting"},
    {Phase::kSucceeded, "Succeeded"},
    {Phase::kFailed, "Failed"},
}};

inline constexpr Words<PodSecurity, 3> kPodSecurityLevels{{
    {PodSecurity::kPrivileged, "privileged"},
    {PodSecurity::kBaseline, "baseline"},
    {PodSecurity::kRestricted, "restricted"},
}};

}  // namespace coxswain::job
