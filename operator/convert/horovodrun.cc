#include <array>

#include "operator/convert/launchers.h"

// The options of horovodrun 0.28.
// https://horovod.readthedocs.io/en/stable/running_include.html
namespace coxswain::convert {

namespace {

constexpr const char* kTuning =
    "nothing is polled here; communication.bucketBytes: auto measures at the start";
constexpr const char* kOperatorDoes = "the operator makes the pods find each other";
using enum Outcome;

constexpr auto kHorovodrunOptions = std::to_array<Option>({
    {.names = "-np --num-proc", .answer = "{} ranks", .take = say<kRanks>},
    {.names = "-H --hosts",
     .answer = "their slots; the operator writes the hostfile",
     .take = say<kHosts>},
    {.names = "-hostfile --hostfile",
     .answer = "its slots; the operator writes the hostfile",
     .take = say<kHostfile>},
    {.names = "--min-np --min-num-proc",
     .answer = "elasticPolicy.minReplicas, in workers",
     .take = say<kLeast>},
    {.names = "--max-np --max-num-proc",
     .answer = "elasticPolicy.maxReplicas, in workers",
     .take = say<kMost>},
    {.names = "--slots --slots-per-host", .answer = "slotsPerWorker: {}", .take = say<kSlots>},
    {.names = "--reset-limit", .key = "runPolicy.backoffLimit"},
    {.names = "--start-timeout", .key = "runPolicy.startupDeadlineSeconds"},
    {.names = "--elastic-timeout",
     .outcome = kNotNeeded,
     .answer = "a new size is a new gang; runPolicy.startupDeadlineSeconds is its limit"},
    {.names = "--host-discovery-script",
     .outcome = kNotNeeded,
     .answer = "the operator knows the pods"},
    {.names = "--mpi-args --mpi-threads-disable -p --ssh-port -i --ssh-identity-file "
              "--network-interface --network-interfaces",
     .outcome = kNotNeeded,
     .answer = kOperatorDoes},
    {.names = "--gloo",
     .values = 0,
     .outcome = kMind,
     .answer = "ranks are started by Open MPI: the image needs a Horovod that was built with it"},
    {.names = "--mpi --jsrun --check-build -cb",
     .values = 0,
     .outcome = kNotNeeded,
     .answer = kOperatorDoes},
    {.names = "--output-filename", .outcome = kNotNeeded, .answer = "each pod has its own log"},
    {.names = "--verbose -v --disable-cache -prefix-timestamp --prefix-output-with-timestamp",
     .values = 0,
     .outcome = kNotNeeded,
     .answer = "each pod has its own log"},
    {.names = "--fusion-threshold-mb --cycle-time-ms --cache-capacity --autotune-log-file "
              "--autotune-warmup-samples --autotune-steps-per-sample "
              "--autotune-bayes-opt-max-samples --autotune-gaussian-process-noise "
              "--num-nccl-streams --thread-affinity",
     .outcome = kNotNeeded,
     .answer = kTuning},
    {.names = "--autotune --hierarchical-allreduce --no-hierarchical-allreduce "
              "--hierarchical-allgather --no-hierarchical-allgather",
     .values = 0,
     .outcome = kNotNeeded,
     .answer = kTuning},
    {.names = "--timeline-filename",
     .outcome = kMind,
     .answer = "training.report.timeline: FILE tells some steps of all ranks"},
    {.names = "--timeline-mark-cycles",
     .values = 0,
     .outcome = kMind,
     .answer = "training.report.timeline: FILE tells some steps of all ranks"},
    {.names = "--no-stall-check",
     .values = 0,
     .outcome = kNotNeeded,
     .answer = "every wait has a deadline: stepDeadlineSeconds"},
    {.names = "--stall-check-warning-time-seconds",
     .outcome = kNotNeeded,
     .answer = "a rank that falls silent is named by stepDeadlineSeconds"},
    {.names = "--stall-check-shutdown-time-seconds",
     .outcome = kNotNeeded,
     .answer = "stepDeadlineSeconds ends a step that takes longer"},
    {.names = "--log-level", .outcome = kNotNeeded, .answer = "of Horovod's own log"},
    {.names = "--config-file",
     .outcome = kNoPlace,
     .answer = "its options aren't read: write them into the command"},
});

}  // namespace

const Dialect& horovodrun() {
  static constexpr Dialect dialect{"horovodrun", Starter::kMpi, OptionStyle::kArgparse,
                                   kHorovodrunOptions};
  return dialect;
}

}  // namespace coxswain::convert
