#include <array>

#include "operator/convert/launchers.h"

// The options of github.com/apache/mxnet/tools/launch.py and of dmlc-core's tracker.
namespace coxswain::convert {

namespace {

void launcher(Draft& draft, const std::vector<std::string>& values) {
  const std::string& text = values.front();
  if (text == "sge" || text == "yarn" || text == "mesos" || text == "slurm")
    draft.no_place("--launcher " + text,
                   "pods are started by the operator, processes by coxswain run");
}

// NAME:VALUE, as the tracker has it.
void variable(Draft& draft, const std::vector<std::string>& values) {
  std::string text = values.front();
  const std::size_t cut = text.find_first_of(":=");
  if (cut != std::string::npos) text[cut] = '=';
  say_variable(draft, {text});
}

using enum Outcome;

constexpr auto kLaunchPyOptions = std::to_array<Option>({
    {.names = "-n --num-workers",
     .answer = "replicaSpecs.Worker.replicas: {}",
     .take = say<kNodes>},
    {.names = "-s --num-servers",
     .answer = "replicaSpecs.Server.replicas: {}",
     .take = say<kServerCount>},
    {.names = "-H --hostfile --host-file",
     .answer = "a worker each; the operator writes the hostfile",
     .take = say<kHostfile>},
    {.names = "--sync-dst-dir", .outcome = kNotNeeded, .answer = "what is to run is in the image"},
    {.names = "--launcher --cluster",
     .outcome = kNotNeeded,
     .answer = "pods are started by the operator, local processes by coxswain run -f",
     .take = launcher},
    {.names = "--env --env-worker", .take = variable},
    {.names = "--env-server",
     .outcome = kNoPlace,
     .answer = "servers of ours take no variables; write env of Server's template"},
    {.names = "--p3",
     .values = 0,
     .outcome = kNoPlace,
     .answer = "pushes go in the order of the layers already"},
    {.names = "--archives --files --jobname --queue --log-level --log-file",
     .outcome = kNotNeeded,
     .answer = "what is to run is in the image"},
});

}  // namespace

const Dialect& launch_py() {
  static constexpr Dialect dialect{"launch.py", Starter::kMxnet, OptionStyle::kArgparse,
                                   kLaunchPyOptions};
  return dialect;
}

}  // namespace coxswain::convert
