#include <algorithm>
#include <array>

#include "operator/convert/foreign.h"

// Job of batch.volcano.sh/v1alpha1: tasks of any name; those are read whose names or plug-ins tell
// what they are.
namespace coxswain::convert {

namespace {

using enum Outcome;
constexpr char kPlugins[] = "plugins";

void take_tasks(Foreign& foreign, const std::string&, const Json& value) {
  if (!value.is_array()) return;
  for (const Json& task : value) {
    if (!task.is_object()) continue;
    const std::string name = task.contains("name") && task["name"].is_string()
                                 ? task["name"].get<std::string>()
                                 : "worker";
    if (foreign.has(name))
      foreign.draft.no_place("task " + name, "a second one of this name: each has its own");
    foreign.roles[name];
    for (const auto& [key, inner] : task.items()) {
      if (key == "name") continue;
      if (key == "replicas")
        take_replicas(foreign, name, inner);
      else if (key == "template")
        take_template(foreign, name, inner);
      else if (key == "policies" || key == "minAvailable" || key == "dependsOn" ||
               key == "maxRetry")
        foreign.draft.note(kNotNeeded, "task " + name + "." + key,
                           "the gang starts, ends and restarts as one");
      else
        foreign.draft.no_place("task " + name + "." + key, "unknown field");
    }
  }
}

constexpr auto kVolcanoRows = std::to_array<FieldRow>({
    {.path = "spec.schedulerName",
     .outcome = kNotNeeded,
     .answer = "runPolicy.schedulingPolicy.gang: Volcano names the scheduler"},
    {.path = "spec.minAvailable", .key = "runPolicy.schedulingPolicy.minAvailable"},
    {.path = "spec.queue", .key = "runPolicy.schedulingPolicy.queue"},
    {.path = "spec.priorityClassName", .key = "runPolicy.schedulingPolicy.priorityClass"},
    {.path = "spec.maxRetry", .key = "runPolicy.backoffLimit"},
    {.path = "spec.ttlSecondsAfterFinished", .key = "runPolicy.ttlSecondsAfterFinished"},
    {.path = "spec.plugins",
     .outcome = kNotNeeded,
     .answer = "names, keys and variables come with every job: rendezvous, launcher",
     .take = said<kPlugins>},
    {.path = "spec.policies",
     .outcome = kNotNeeded,
     .answer = "a lost pod restarts the gang from its newest checkpoint"},
    {.path = "spec.tasks", .answer = "replicaSpecs", .take = take_tasks},
    {.path = "spec.volumes",
     .outcome = kNoPlace,
     .answer = "write volumes.data, volumes.checkpoints, or volumes of the template"},
    {.path = "spec.minSuccess",
     .outcome = kNoPlace,
     .answer = "successPolicy has RankZero and AllWorkers"},
    {.path = "spec.runningEstimate", .outcome = kNotNeeded, .answer = "an estimate"},
    {.path = "spec.networkTopology",
     .outcome = kNoPlace,
     .answer = "write affinity into the template"},
});

// The first of these names that a task has; empty: none.
std::string task_among(const Foreign& foreign, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (foreign.has(name)) return name;
  return "";
}

bool launches_mpi(Foreign& foreign, const std::string& master) {
  const Json& plugins = foreign.said[kPlugins];
  if (plugins.is_object() && plugins.contains("mpi")) return true;
  const Json* container = main_container(foreign.roles[master].pod_template);
  if (!container) return false;
  const std::vector<std::string> words = words_of(*container);
  return std::any_of(words.begin(), words.end(), [](const std::string& word) {
    return word.find("mpirun") != std::string::npos || word.find("mpiexec") != std::string::npos;
  });
}

void give_up(Foreign& foreign) {
  std::string names;
  for (const auto& [name, role] : foreign.roles) names += (names.empty() ? "" : ", ") + name;
  foreign.draft.no_place("tasks " + names,
                         "which trains? convert reads master and worker, ps and worker, scheduler, "
                         "server and worker, or one task alone");
}

void set_gang(Foreign& foreign) {
  Draft& draft = foreign.draft;
  draft.put("runPolicy.schedulingPolicy.gang", "Volcano");
  int pods = 0;
  for (const auto& [name, role] : foreign.roles) pods += role.replicas;
  const Json* least = draft.find("runPolicy.schedulingPolicy.minAvailable");
  if (least && least->is_number_integer() && *least >= pods) {
    draft.remove("runPolicy.schedulingPolicy.minAvailable");
    draft.note(kNotNeeded, "minAvailable", "all pods of the gang, as here unless set");
  }
}

// By hand in each pod there, TF_CONFIG and DMLC_* are set here.
void finish_volcano_job(Foreign& foreign) {
  set_gang(foreign);
  const std::string worker = task_among(foreign, {"worker", "mpiworker", "workers"});
  const std::string master = task_among(foreign, {"master", "mpimaster", "launcher", "chief"});
  const std::size_t tasks = foreign.roles.size();
  if (tasks == 3 && foreign.has("scheduler") && foreign.has("server") && !worker.empty())
    return finish_mxnet(foreign, worker, "server");
  if (tasks == 2 && foreign.has("ps") && !worker.empty()) {
    foreign.roles["PS"] = foreign.roles["ps"];
    foreign.roles["Worker"] = foreign.roles[worker];
    return finish_tensorflow(foreign);
  }
  if (tasks == 2 && !master.empty() && !worker.empty())
    return launches_mpi(foreign, master) ? finish_mpi(foreign, master, worker)
                                         : finish_torch(foreign, master, worker);
  if (tasks != 1) return give_up(foreign);
  const std::string only = foreign.roles.begin()->first;
  foreign.draft.put(kWorkers, foreign.roles[only].replicas);
  foreign.draft.put(kWorkerTemplate, our_template(foreign, only));
}

constexpr auto kVolcanoKinds =
    std::to_array<Kind>({{"batch.volcano.sh/v1alpha1", "Job", kVolcanoRows, finish_volcano_job}});

}  // namespace

std::span<const Kind> volcano_kinds() { return kVolcanoKinds; }

}  // namespace coxswain::convert
