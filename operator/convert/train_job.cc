#include <array>

#include "operator/convert/foreign.h"

// TrainJob of trainer.kubeflow.org/v1alpha1, and the runtime that it refers to.
namespace coxswain::convert {

namespace {

using enum Outcome;
constexpr char kNodes[] = "numNodes";
constexpr char kProcesses[] = "numProcPerNode";
constexpr char kRuntime[] = "runtime";
constexpr char kImage[] = "image";
constexpr char kCommand[] = "command";
constexpr char kArgs[] = "args";
constexpr char kEnv[] = "env";
constexpr char kResources[] = "resources";
constexpr char kPods[] = "pods";
constexpr char kMpi[] = "mpi";
constexpr char kTorch[] = "torch";
constexpr char kRuntimeNodes[] = "runtime.numNodes";
constexpr char kRuntimeProcesses[] = "runtime.numProcPerNode";
constexpr const char* kJobSet = "of JobSet, which makes no pods here";
constexpr const char* kInit =
    "an init container of the template, or the volume `data`, filled beforehand";

constexpr auto kTrainJobRows = std::to_array<FieldRow>({
    {.path = "spec.runtimeRef.name",
     .answer = "its runtime stands in the job itself",
     .take = said<kRuntime>},
    {.path = "spec.runtimeRef.kind"},
    {.path = "spec.runtimeRef.apiGroup"},
    {.path = "spec.suspend", .key = "runPolicy.suspend"},
    {.path = "spec.activeDeadlineSeconds", .key = "runPolicy.activeDeadlineSeconds"},
    {.path = "spec.managedBy",
     .outcome = kMind,
     .answer = "names who runs the job there; ours is coxswain.dev/operator"},
    {.path = "spec.trainer.numNodes",
     .answer = "replicaSpecs.Worker.replicas",
     .take = said<kNodes>},
    {.path = "spec.trainer.numProcPerNode", .answer = "slotsPerWorker", .take = said<kProcesses>},
    {.path = "spec.trainer.image", .answer = "image of the container", .take = said<kImage>},
    {.path = "spec.trainer.command", .answer = "command of the container", .take = said<kCommand>},
    {.path = "spec.trainer.args", .answer = "args of the container", .take = said<kArgs>},
    {.path = "spec.trainer.env", .answer = "env of the container", .take = said<kEnv>},
    {.path = "spec.trainer.resourcesPerNode",
     .answer = "resources of the container",
     .take = said<kResources>},
    {.path = "spec.initializer.dataset", .outcome = kNoPlace, .answer = kInit},
    {.path = "spec.initializer.model", .outcome = kNoPlace, .answer = kInit},
    {.path = "spec.labels", .outcome = kMind, .answer = "write them into the template's metadata"},
    {.path = "spec.annotations",
     .outcome = kMind,
     .answer = "write them into the template's metadata"},
    {.path = "spec.podTemplateOverrides",
     .outcome = kNoPlace,
     .answer = "write it into the template"},
    {.path = "spec.podSpecOverrides", .outcome = kNoPlace, .answer = "write it into the template"},
    {.path = "spec.runtimePatches", .outcome = kNoPlace, .answer = "write it into the template"},
});

// The replicated jobs of a runtime: the one that trains is `node`, or the only one.
void take_jobs(Foreign& foreign, const std::string&, const Json& value) {
  if (!value.is_array()) return;
  for (const Json& one : value) {
    const std::string name = one.is_object() ? one.value("name", "") : "";
    const bool trains =
        name == "node" || name == "trainer-node" || name == "trainer" || value.size() == 1;
    if (!trains) {
      foreign.draft.note(name == "launcher" ? kNotNeeded : kMind, "replicatedJobs " + name,
                         name == "launcher" ? "worker 0 launches"
                                            : "an init container of the template does as much");
      continue;
    }
    const Json::json_pointer pod("/template/spec/template");
    if (one.contains(pod)) foreign.said[kPods] = one.at(pod);
  }
}

constexpr auto kRuntimeRows = std::to_array<FieldRow>({
    {.path = "spec.mlPolicy.numNodes",
     .answer = "replicaSpecs.Worker.replicas, unless the job says",
     .take = said<kRuntimeNodes>},
    {.path = "spec.mlPolicy.torch",
     .answer = "rendezvous: [PyTorch], and slotsPerWorker, unless the job says",
     .take =
         [](Foreign& foreign, const std::string&, const Json& value) {
           foreign.said[kTorch] = true;
           if (value.is_object() && value.contains("numProcPerNode"))
             foreign.said[kRuntimeProcesses] = value.at("numProcPerNode");
         }},
    {.path = "spec.mlPolicy.mpi",
     .answer = "launcher: MPI",
     .take =
         [](Foreign& foreign, const std::string&, const Json& value) {
           foreign.said[kMpi] = true;
           if (value.is_object() && value.contains("numProcPerNode"))
             foreign.said[kRuntimeProcesses] = value.at("numProcPerNode");
           if (value.is_object() && value.value("mpiImplementation", "OpenMPI") != "OpenMPI")
             foreign.draft.no_place("mpiImplementation", "Open MPI 4 and 5 alone");
         }},
    {.path = "spec.podGroupPolicy.coscheduling.scheduleTimeoutSeconds",
     .key = "runPolicy.schedulingPolicy.scheduleTimeoutSeconds"},
    {.path = "spec.podGroupPolicy.volcano",
     .answer = "runPolicy.schedulingPolicy.gang: Volcano",
     .take = [](Foreign& foreign, const std::string&,
                const Json&) { foreign.draft.put("runPolicy.schedulingPolicy.gang", "Volcano"); }},
    {.path = "spec.template.spec.replicatedJobs",
     .answer = "its pods: replicaSpecs.Worker.template",
     .take = take_jobs},
    {.path = "spec.template.spec.network", .outcome = kNotNeeded, .answer = kJobSet},
    {.path = "spec.template.spec.successPolicy", .outcome = kNotNeeded, .answer = kJobSet},
    {.path = "spec.template.spec.failurePolicy", .outcome = kNotNeeded, .answer = kJobSet},
    {.path = "spec.template.spec.startupPolicy", .outcome = kNotNeeded, .answer = kJobSet},
    {.path = "spec.template.spec.suspend", .outcome = kNotNeeded, .answer = kJobSet},
    {.path = "spec.template.metadata", .outcome = kNotNeeded, .answer = kJobSet},
});

void set_processes(Foreign& foreign) {
  const std::string job = foreign.text(kProcesses);
  const std::string text = job.empty() ? foreign.text(kRuntimeProcesses) : job;
  if (text.empty()) return;
  if (const auto number = whole_number(text, 1))
    foreign.draft.put("slotsPerWorker", *number);
  else if (text == "auto" || text == "gpu")
    foreign.draft.put("slotsPerWorker", "auto");
  else
    foreign.draft.no_place("numProcPerNode: " + text, "write the number of ranks of a worker");
}

Json pod_of(Foreign& foreign) {
  Json pod = foreign.said.contains(kPods)
                 ? foreign.said[kPods]
                 : Json{{"spec", {{"containers", Json::array({{{"name", "trainer"}}})}}}};
  Json* container = main_container(pod);
  if (!container) return pod;
  for (const char* key : {kImage, kCommand, kArgs, kResources})
    if (foreign.said.contains(key)) (*container)[key] = foreign.said[key];
  if (foreign.said.contains(kCommand) && !foreign.said.contains(kArgs)) container->erase("args");
  for (const Json& one : foreign.said.contains(kEnv) ? foreign.said[kEnv] : Json::array()) {
    if (!container->contains("env")) (*container)["env"] = Json::array();
    (*container)["env"].push_back(one);
  }
  return pod;
}

void finish_train_job(Foreign& foreign) {
  Draft& draft = foreign.draft;
  const std::string runtime = foreign.text(kRuntime);
  const bool given = foreign.said.contains(kPods);
  if (!given)
    draft.note(kMind, "runtimeRef " + runtime,
               "its image, command and volumes are in the runtime: give its file too, with another "
               "-f, or write them");
  const bool mpi = foreign.said.contains(kMpi) || runtime.starts_with("mpi");
  const bool torch = foreign.said.contains(kTorch) || runtime.starts_with("torch");
  const std::string nodes =
      foreign.text(kNodes).empty() ? foreign.text(kRuntimeNodes) : foreign.text(kNodes);
  draft.put(kWorkers, whole_number(nodes.empty() ? "1" : nodes, 1).value_or(0));
  set_processes(foreign);
  foreign.roles["node"].pod_template = pod_of(foreign);
  const Json pod = foreign.roles["node"].pod_template;
  if (mpi) {
    foreign.roles["launcher"].pod_template = pod;
    foreign.roles["node"].replicas = whole_number(nodes.empty() ? "1" : nodes, 1).value_or(0);
    finish_mpi(foreign, "launcher", "node");
    return;
  }
  draft.put(kWorkerTemplate, our_template(foreign, "node"));
  if (torch) draft.put("rendezvous", Json::array({"PyTorch"}));
  if (!torch)
    draft.note(kMind, "runtimeRef " + runtime,
               "no torch and no MPI that is known: the pods get the variables of PyTorch and "
               "TensorFlow");
}

constexpr const char* kVersion = "trainer.kubeflow.org/v1alpha1";
constexpr auto kTrainJobKinds =
    std::to_array<Kind>({{kVersion, "TrainJob", kTrainJobRows, finish_train_job}});
constexpr auto kRuntimes =
    std::to_array<Kind>({{kVersion, "TrainingRuntime", kRuntimeRows, nullptr},
                         {kVersion, "ClusterTrainingRuntime", kRuntimeRows, nullptr}});

}  // namespace

std::span<const Kind> train_job_kinds() { return kTrainJobKinds; }
std::span<const Kind> runtime_kinds() { return kRuntimes; }

}  // namespace coxswain::convert
