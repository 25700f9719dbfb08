#include "operator/job/roles.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "operator/job/fnv1a.h"

namespace coxswain::job {

namespace {

// Its servers hold the weights, so that its workers can come and go. Of our own trainer they can't
// yet: its steps are synchronous, so that a step whose pod is lost has no end for the others, and
// the servers' weights are in the checkpoint of worker 0 alone.
bool outlives_a_pod(const Spec& spec) {
  return spec.strategy == Strategy::kParameterServer && !spec.training;
}

// Of the recorded attempt: a change of the spec counts from the next one on.
int recorded_servers(const TrainingJob& job) {
  if (!job.spec.server || job.status.workers == 0) return 0;
  const auto recorded = job.status.replicas.find(Role::kServer);
  const int desired = recorded == job.status.replicas.end() ? 0 : recorded->second.desired;
  return desired > 0 ? desired : job.spec.server->replicas;
}

constexpr std::array<RoleTraits, 2> kRoles{{
    {.role = Role::kWorker,
     .replicas = [](const Spec& spec) { return &spec.worker; },
     .size = [](const TrainingJob& job) { return job.status.workers; },
     .slots = slots_per_worker,
     .serves = [](const Spec& spec,
                  int index) { return launcher(spec) == Launcher::kMpi && index > 0; },
     .is_replaced_alone = outlives_a_pod,
     .port = &Ports::master,
     .endpoint = &Ports::rank,
     .task = "worker"},
    {.role = Role::kServer,
     .replicas = [](const Spec& spec) { return spec.server ? &*spec.server : nullptr; },
     .size = recorded_servers,
     .slots = [](const Spec&) { return 1; },
     .serves = [](const Spec&, int) { return true; },
     .is_replaced_alone = outlives_a_pod,
     .port = &Ports::server,
     .endpoint = &Ports::server_rank,
     .task = "ps"},
}};

constexpr int kOfAnyPod = 4;  // in a row; then one for each rank of a worker

// With the last mixing of MurmurHash3: attempts differ in their last bits alone.
std::uint32_t scattered(const std::string& text) {
  std::uint32_t hash = fnv1a(text);
  hash = (hash ^ hash >> 16) * 0x85ebca6bU;
  hash = (hash ^ hash >> 13) * 0xc2b2ae35U;
  return hash ^ hash >> 16;
}

}  // namespace

const RoleTraits& traits_of(Role role) {
  return *std::ranges::find(kRoles, role, &RoleTraits::role);
}

std::vector<RoleTraits> roles_of(const Spec& spec) {
  std::vector<RoleTraits> roles;
  for (const RoleTraits& traits : kRoles)
    if (traits.replicas(spec)) roles.push_back(traits);
  return roles;
}

bool serves(const Spec& spec, Role role, int index) { return traits_of(role).serves(spec, index); }

int pods_of(const Spec& spec) {
  int pods = 0;
  for (const RoleTraits& traits : roles_of(spec)) pods += traits.replicas(spec)->replicas;
  return pods;
}

const Replacement* replacement_of(const Status& status, Role role, int index) {
  for (const Replacement& each : status.replacements)
    if (each.role == role && each.index == index) return &each;
  return nullptr;
}

int incarnation_of(const Status& status, Role role, int index) {
  const Replacement* replacement = replacement_of(status, role, index);
  return replacement ? replacement->incarnation : 0;
}

bool is_current(const Status& status, const WorkerId& id) {
  return id.attempt == status.attempt &&
         id.incarnation == incarnation_of(status, id.role, id.index);
}

std::vector<WorkerId> gang(const TrainingJob& job) {
  std::vector<WorkerId> ids;
  for (const RoleTraits& traits : roles_of(job.spec))
    for (int i = 0; i < traits.size(job); ++i)
      ids.push_back(
          {traits.role, i, job.status.attempt, incarnation_of(job.status, traits.role, i)});
  return ids;
}

Ports ports_of(const TrainingJob& job) {
  const int first = job.status.host_port;
  if (first == 0) return {};
  return {.ssh = first,
          .rank = first + 1,
          .server = first + 2,
          .server_rank = first,  // a server has no SSH; so it may stand beside a worker
          .master = first + 3,
          .peer = first + kOfAnyPod};
}

bool on_host_network(const ReplicaSpec& replicas) {
  const Json::json_pointer place("/spec/hostNetwork");
  const Json& pod = replicas.pod_template;
  return pod.is_object() && pod.contains(place) && pod.at(place) == true;
}

int draw_host_port(const TrainingJob& job, int attempt) {
  const auto on_host = [&](const RoleTraits& traits) {
    return on_host_network(*traits.replicas(job.spec));
  };
  if (std::ranges::none_of(roles_of(job.spec), on_host)) return 0;
  const int in_a_row =
      kOfAnyPod + (trains_over_tcp(job.spec) ? slots_per_worker(job.spec) : 0);
  const auto draws = static_cast<std::uint32_t>((kEndOfHostPorts - kFirstHostPort) / in_a_row);
  const std::uint32_t draw = scattered(fmt::format("{} {}", job.metadata.uid, attempt)) % draws;
  return kFirstHostPort + in_a_row * static_cast<int>(draw);
}

}  // namespace coxswain::job
