#include <array>

#include "operator/convert/foreign.h"

// PyTorchJob of kubeflow.org/v1.
namespace coxswain::convert {

namespace {

using enum Outcome;

void processes(Foreign& foreign, const std::string&, const Json& value) {
  Draft& draft = foreign.draft;
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  if (const auto number = whole_number(text, 1))
    draft.put("slotsPerWorker", *number);
  else if (text == "auto" || text == "gpu")
    draft.put("slotsPerWorker", "auto");
  else
    draft.no_place("nprocPerNode: " + text, "write the number of ranks of a worker");
}

constexpr const char* kNewGang = "a new size is a new gang with new variables";

constexpr auto kPyTorchRows = std::to_array<FieldRow>({
    {.path = "spec.pytorchReplicaSpecs.*.replicas", .take = take_replicas},
    {.path = "spec.pytorchReplicaSpecs.*.template", .take = take_template},
    {.path = "spec.pytorchReplicaSpecs.*.restartPolicy",
     .outcome = kNotNeeded,
     .answer = "the gang restarts, up to runPolicy.backoffLimit times",
     .take = take_restart_policy},
    {.path = "spec.nprocPerNode", .answer = "slotsPerWorker", .take = processes},
    {.path = "spec.elasticPolicy.minReplicas", .key = "elasticPolicy.minReplicas"},
    {.path = "spec.elasticPolicy.maxReplicas", .key = "elasticPolicy.maxReplicas"},
    {.path = "spec.elasticPolicy.maxRestarts", .key = "runPolicy.backoffLimit"},
    {.path = "spec.elasticPolicy.nProcPerNode", .answer = "slotsPerWorker", .take = processes},
    {.path = "spec.elasticPolicy.metrics",
     .outcome = kMind,
     .answer = "write a HorizontalPodAutoscaler of the TrainingJob: it has the scale subresource"},
    {.path = "spec.elasticPolicy.rdzvBackend", .outcome = kNotNeeded, .answer = kNewGang},
    {.path = "spec.elasticPolicy.rdzvHost", .outcome = kNotNeeded, .answer = kNewGang},
    {.path = "spec.elasticPolicy.rdzvPort", .outcome = kNotNeeded, .answer = kNewGang},
    {.path = "spec.elasticPolicy.rdzvId", .outcome = kNotNeeded, .answer = kNewGang},
    {.path = "spec.elasticPolicy.rdzvConf", .outcome = kNotNeeded, .answer = kNewGang},
    {.path = "spec.elasticPolicy.standalone", .outcome = kNotNeeded, .answer = kNewGang},
});

}  // namespace

void finish_torch(Foreign& foreign, const std::string& master, const std::string& worker) {
  Draft& draft = foreign.draft;
  const std::string taken = foreign.has(worker) ? worker : master;
  if (!foreign.has(taken)) {
    draft.no_place(worker, "is missing from its replicas");
    return;
  }
  compare_templates(foreign, taken, taken == worker ? master : worker);
  int workers = 0;
  for (const std::string& role : {master, worker})
    if (foreign.has(role)) workers += foreign.roles[role].replicas;
  draft.put(kWorkers, workers);
  draft.put(kWorkerTemplate, our_template(foreign, taken));
  draft.put("rendezvous", Json::array({"PyTorch"}));
  if (!foreign.has(master)) return;
  draft.put("successPolicy", "RankZero");
  draft.note(kBecame, master, "worker 0, and the job succeeds with it: successPolicy: RankZero");
}

namespace {

void finish_pytorch_job(Foreign& foreign) { finish_torch(foreign, "Master", "Worker"); }

constexpr auto kPyTorchKinds =
    std::to_array<Kind>({{"kubeflow.org/v1", "PyTorchJob", kPyTorchRows, finish_pytorch_job}});

}  // namespace

std::span<const Kind> pytorch_kinds() { return kPyTorchKinds; }

}  // namespace coxswain::convert
