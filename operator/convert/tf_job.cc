#include <array>

#include "operator/convert/foreign.h"

// TFJob of kubeflow.org/v1.
namespace coxswain::convert {

namespace {

using enum Outcome;
constexpr char kSuccess[] = "successPolicy";

constexpr auto kTfRows = std::to_array<FieldRow>({
    {.path = "spec.tfReplicaSpecs.*.replicas", .take = take_replicas},
    {.path = "spec.tfReplicaSpecs.*.template", .take = take_template},
    {.path = "spec.tfReplicaSpecs.*.restartPolicy",
     .outcome = kNotNeeded,
     .answer = "the gang restarts, up to runPolicy.backoffLimit times",
     .take = take_restart_policy},
    {.path = "spec.successPolicy", .answer = "successPolicy", .take = said<kSuccess>},
    {.path = "spec.enableDynamicWorker",
     .outcome = kNotNeeded,
     .answer = "a new size is a new gang with new variables"},
});

}  // namespace

void finish_tensorflow(Foreign& foreign) {
  Draft& draft = foreign.draft;
  const std::string chief = foreign.has("Master") ? "Master" : "Chief";
  const std::string taken = foreign.has("Worker") ? "Worker" : chief;
  if (!foreign.has(taken)) {
    draft.no_place("Worker", "is missing from its replicas");
    return;
  }
  compare_templates(foreign, taken, taken == chief ? "Worker" : chief);
  int workers = 0;
  for (const std::string& role : {chief, std::string("Worker")})
    if (foreign.has(role)) workers += foreign.roles[role].replicas;
  draft.put(kWorkers, workers);
  draft.put(kWorkerTemplate, our_template(foreign, taken));
  draft.put("rendezvous", Json::array({"TensorFlow"}));
  draft.put("successPolicy", foreign.text(kSuccess) == "AllWorkers" ? "AllWorkers" : "RankZero");
  if (foreign.has("Evaluator"))
    draft.no_place("Evaluator", "a job of its own evaluates beside the training");
  if (!foreign.has("PS")) return;
  draft.put("strategy", "ParameterServer");
  draft.put(kServers, foreign.roles["PS"].replicas);
  draft.put(kServerTemplate, our_template(foreign, "PS"));
  draft.note(kBecame, "PS", "replicaSpecs.Server, with strategy: ParameterServer");
}

namespace {

constexpr auto kTfKinds =
    std::to_array<Kind>({{"kubeflow.org/v1", "TFJob", kTfRows, finish_tensorflow}});

}  // namespace

std::span<const Kind> tensorflow_kinds() { return kTfKinds; }

}  // namespace coxswain::convert
