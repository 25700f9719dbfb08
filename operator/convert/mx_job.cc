#include <array>

#include "operator/convert/foreign.h"

// MXJob of kubeflow.org/v1, as training-operator had it until 1.8.
namespace coxswain::convert {

namespace {

using enum Outcome;

void mode(Foreign& foreign, const std::string&, const Json& value) {
  if (value != "MXTrain") foreign.draft.no_place("jobMode: " + value.dump(), "only MXTrain trains");
}

constexpr auto kMxRows = std::to_array<FieldRow>({
    {.path = "spec.jobMode", .outcome = kNotNeeded, .answer = "a job trains", .take = mode},
    {.path = "spec.mxReplicaSpecs.*.replicas", .take = take_replicas},
    {.path = "spec.mxReplicaSpecs.*.template", .take = take_template},
    {.path = "spec.mxReplicaSpecs.*.restartPolicy",
     .outcome = kNotNeeded,
     .answer = "the gang restarts, up to runPolicy.backoffLimit times",
     .take = take_restart_policy},
});

}  // namespace

void finish_mxnet(Foreign& foreign, const std::string& worker, const std::string& server) {
  Draft& draft = foreign.draft;
  for (const std::string& role : {worker, server})
    if (!foreign.has(role)) {
      draft.no_place(role, "is missing from its replicas");
      return;
    }
  draft.put("strategy", "ParameterServer");
  draft.put("rendezvous", Json::array({"MXNet"}));
  draft.put(kWorkers, foreign.roles[worker].replicas);
  draft.put(kServers, foreign.roles[server].replicas);
  draft.put(kWorkerTemplate, our_template(foreign, worker));
  Json pod = our_template(foreign, server);
  if (Json* container = main_container(pod); container && words_of(*container).empty()) {
    (*container)["command"] = Json::array({"python3", "-c", "import mxnet"});
    draft.note(kMind, server + ".template",
               "without a command its image's own would run: a server, and the scheduler, need no "
               "more than import mxnet");
  }
  draft.put(kServerTemplate, pod);
  draft.note(kBecame, "Scheduler", "made by the operator, of Server's template");
}

namespace {

void finish_mx_job(Foreign& foreign) { finish_mxnet(foreign, "Worker", "Server"); }

constexpr auto kMxKinds =
    std::to_array<Kind>({{"kubeflow.org/v1", "MXJob", kMxRows, finish_mx_job}});

}  // namespace

std::span<const Kind> mxnet_kinds() { return kMxKinds; }

}  // namespace coxswain::convert
