#include "operator/job/training_job.h"

#include <fmt/format.h>

#include <algorithm>

#include "operator/job/quantity.h"
#include "operator/job/words.h"

namespace coxswain::job {

namespace {

constexpr int kMaxSlots = 1024;

struct GpuLimit {
  std::string resource;
  int count = 0;
};

// Extended resources that count as a GPU, by the ending of their names: nvidia.com/gpu,
// amd.com/gpu.
GpuLimit gpu_limit(const Spec& spec) {
  const Json* limits = trainer_container(spec.worker);
  if (!limits) return {};
  for (const char* key : {"resources", "limits"}) {
    const auto found = limits->find(key);
    if (found == limits->end() || !found->is_object()) return {};
    limits = &*found;
  }
  for (const auto& [name, amount] : limits->items()) {
    if (!name.ends_with("/gpu") && !name.starts_with("nvidia.com/mig-")) continue;
    const double count = std::min(quantity_of(amount).value_or(0), double{kMaxSlots});
    return {name, static_cast<int>(count)};
  }
  return {};
}

}  // namespace

Launcher launcher(const Spec& spec) {
  if (spec.launcher) return *spec.launcher;
  const bool mpi = spec.strategy == Strategy::kAllReduce && spec.training;
  return mpi ? Launcher::kMpi : Launcher::kEnv;
}

bool trains_over_tcp(const Spec& spec) { return spec.training && launcher(spec) == Launcher::kEnv; }

SuccessPolicy success_policy(const Spec& spec) {
  if (spec.success_policy) return *spec.success_policy;
  return launcher(spec) == Launcher::kMpi ? SuccessPolicy::kRankZero : SuccessPolicy::kAllWorkers;
}

int slots_per_worker(const Spec& spec) {
  return spec.slots_per_worker > 0 ? spec.slots_per_worker : std::max(1, gpus_per_worker(spec));
}

bool wants(const Spec& spec, Framework framework) {
  // Our own trainer is no Horovod, and no other program needs MXNet's scheduler.
  if (!spec.rendezvous)
    return framework != Framework::kMxnet && (framework != Framework::kHorovod || !spec.training);
  return std::ranges::find(*spec.rendezvous, framework) != spec.rendezvous->end();
}

bool has_scheduler(const Spec& spec) {
  return spec.server && !spec.training && wants(spec, Framework::kMxnet);
}

int gpus_per_worker(const Spec& spec) { return gpu_limit(spec).count; }

bool asks_for_cuda(const Spec& spec) {
  const GpuLimit limit = gpu_limit(spec);
  return limit.count > 0 && limit.resource.starts_with("nvidia.com/");
}

const Json* trainer_container(const ReplicaSpec& replicas) {
  const Json& pod = replicas.pod_template;
  const Json::json_pointer place("/spec/containers");
  if (!pod.is_object() || !pod.contains(place) || !pod.at(place).is_array()) return nullptr;
  const Json& containers = pod.at(place);
  for (const Json& container : containers)
    if (container.is_object() && container.value("name", Json()) == "trainer") return &container;
  return containers.size() == 1 && containers[0].is_object() ? &containers[0] : nullptr;
}

std::vector<std::string> container_command(const ReplicaSpec& replicas) {
  std::vector<std::string> command;
  const Json* container = trainer_container(replicas);
  if (container == nullptr) return command;
  for (const char* key : {"command", "args"}) {
    if (!container->contains(key) || !container->at(key).is_array()) continue;
    for (const Json& word : container->at(key)) {
      if (word.is_string()) command.push_back(word.get<std::string>());
    }
  }
  return command;
}

bool is_terminal(const Status& status) {
  return status.phase == Phase::kSucceeded || status.phase == Phase::kFailed;
}

std::string worker_name(const TrainingJob& job, Role role, int index) {
  return fmt::format("{}-{}", job.metadata.name, short_name(role, index));
}

std::string short_name(Role role, int index) {
  return fmt::format("{}-{}", contract::to_text(role), index);
}

std::string to_text(Phase phase) { return std::string(word(phase)); }

std::string to_text(const WorkerId& id) {
  return fmt::format("{} attempt={}{}", short_name(id.role, id.index), id.attempt,
                     id.incarnation > 0 ? fmt::format(" incarnation={}", id.incarnation) : "");
}

std::string to_text(const Problem& problem) {
  if (problem.line == 0) return fmt::format("{}: {}", problem.path, problem.message);
  return fmt::format("line {}: {}: {}", problem.line, problem.path, problem.message);
}

}  // namespace coxswain::job
