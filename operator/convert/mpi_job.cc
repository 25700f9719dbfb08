#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "operator/convert/foreign.h"
#include "operator/convert/launch.h"
#include "operator/convert/program.h"
#include "operator/convert/script.h"
#include "operator/convert/shell.h"
#include "operator/job/json_fields.h"

// MPIJob of kubeflow.org/v1 (training-operator) and v2beta1 (mpi-operator).
namespace coxswain::convert {

namespace {

using enum Outcome;
constexpr char kLauncherWorks[] = "runLauncherAsWorker";

void implementation(Foreign& foreign, const std::string&, const Json& value) {
  if (value != "OpenMPI")
    foreign.draft.no_place("mpiImplementation: " + value.dump(),
                           "Open MPI 4 and 5 alone: build the program with Open MPI");
}

constexpr auto kMpiRows = std::to_array<FieldRow>({
    {.path = "spec.slotsPerWorker", .key = "slotsPerWorker"},
    {.path = "spec.runLauncherAsWorker",
     .answer = "worker 0 launches and trains, always",
     .take = said<kLauncherWorks>},
    {.path = "spec.launcherCreationPolicy",
     .outcome = kNotNeeded,
     .answer = "ranks start once every worker answers"},
    {.path = "spec.mpiImplementation",
     .outcome = kNotNeeded,
     .answer = "Open MPI",
     .take = implementation},
    {.path = "spec.sshAuthMountPath",
     .outcome = kNotNeeded,
     .answer = "keys are in /etc/coxswain/keys, host keys are checked"},
    {.path = "spec.cleanPodPolicy", .key = "runPolicy.cleanPodPolicy"},
    {.path = "spec.mainContainer",
     .outcome = kNotNeeded,
     .answer = "the container that trains is `trainer`, or the only one"},
    {.path = "spec.mpiReplicaSpecs.*.replicas", .take = take_replicas},
    {.path = "spec.mpiReplicaSpecs.*.template", .take = take_template},
    {.path = "spec.mpiReplicaSpecs.*.restartPolicy",
     .outcome = kNotNeeded,
     .answer = "pods don't restart; the whole gang does",
     .take = take_restart_policy},
});

// The command of a container, with a shell's line taken apart.
SimpleCommand command_of(const Json& container, Draft& draft) {
  const std::vector<std::string> words = words_of(container);
  const bool shell = words.size() >= 3 && words[1].starts_with("-") && words[1].ends_with("c") &&
                     (base_name(words[0]) == "sh" || base_name(words[0]) == "bash");
  if (shell) return read_line(words[2], draft);
  return {.environment = {}, .words = words};
}

// What mpirun starts, as the launcher's container says it.
Launch launch_of(Foreign& foreign, const std::string& launcher) {
  Draft& draft = foreign.draft;
  Json* container = main_container(foreign.roles[launcher].pod_template);
  const SimpleCommand command = container ? command_of(*container, draft) : SimpleCommand{};
  if (command.words.empty()) {
    draft.no_place(launcher,
                   "no command: what mpirun starts is in its image; write it as the "
                   "launcher's command");
    return {};
  }
  // The hostfile of their operator is not here to read, and the workers are known.
  const ReadFile no_matter = [](const std::string&) { return std::string("worker"); };
  Launch launch = read_launch(command, no_matter, draft);
  if (launch.starter != Starter::kMpi)
    draft.no_place(launcher + ": " + command.words.front(),
                   "is not mpirun: put what one rank runs into the worker's container");
  return launch;
}

void add_environment(const Launch& launch, Draft& draft, Json& container) {
  for (const auto& [name, value] : launch.environment) {
    if (is_set_by_operator(name)) {
      draft.note(kNotNeeded, name, "the operator sets it in every pod");
      continue;
    }
    if (!container.contains("env")) container["env"] = Json::array();
    container["env"].push_back({{"name", name}, {"value", value}});
    draft.note(kBecame, name + "=" + value, "env of the template");
  }
}

Placement placement_of(const Launch& launch, int workers, Draft& draft) {
  const Json* given = draft.find("slotsPerWorker");
  const int slots = given && given->is_number_integer() ? std::max(given->get<int>(), 1) : 1;
  if (launch.ranks && *launch.ranks != workers * slots)
    draft.note(kMind, fmt::format("{} ranks", *launch.ranks),
               fmt::format("here every slot has one: {}", workers * slots));
  return {.workers = workers, .slots = slots};
}

void say_image(Foreign& foreign, const std::string& worker) {
  const Json* container = main_container(foreign.roles[worker].pod_template);
  if (foreign.image.empty())
    foreign.draft.note(kMind, "image " + (container ? job::text_at(*container, "image") : ""),
                       "ranks are started by our trainer-cpu: build it FROM that one, and give it "
                       "with --image");
}

}  // namespace

void finish_mpi(Foreign& foreign, const std::string& launcher, const std::string& worker) {
  Draft& draft = foreign.draft;
  if (!foreign.has(launcher) || !foreign.has(worker)) {
    draft.no_place(foreign.has(worker) ? launcher : worker, "is missing from its replicas");
    return;
  }
  say_image(foreign, worker);
  compare_templates(foreign, worker, launcher);
  const Launch launch = launch_of(foreign, launcher);
  const bool works = foreign.text(kLauncherWorks) == "true";
  const int workers = foreign.roles[worker].replicas + (works ? 1 : 0);
  place_elastic(launch, placement_of(launch, workers, draft), draft);
  Json pod = our_template(foreign, worker);
  if (Json* container = main_container(pod)) {
    container->erase("args");
    (*container)["command"] = launch.program;
    add_environment(launch, draft, *container);
    if (!launch.directory.empty()) (*container)["workingDir"] = launch.directory;
  }
  draft.put("launcher", "MPI");
  draft.put(kWorkers, workers);
  draft.put(kWorkerTemplate, pod);
  if (launch.starter == Starter::kMpi)
    draft.note(
        kBecame, launcher,
        fmt::format("no pod of its own: worker 0 launches; {} workers run its command without "
                    "{}",
                    workers, launch.name));
  explain_strategies(launch.program, draft);
  if (const Json* least = draft.find("runPolicy.schedulingPolicy.minAvailable");
      least && least->is_number_integer() && *least > workers)
    draft.put("runPolicy.schedulingPolicy.minAvailable", workers);
}

namespace {

void finish_mpi_job(Foreign& foreign) { finish_mpi(foreign, "Launcher", "Worker"); }

constexpr auto kMpiKinds = std::to_array<Kind>({
    {"kubeflow.org/v2beta1", "MPIJob", kMpiRows, finish_mpi_job},
    {"kubeflow.org/v1", "MPIJob", kMpiRows, finish_mpi_job},
});

}  // namespace

std::span<const Kind> mpi_kinds() { return kMpiKinds; }

}  // namespace coxswain::convert
