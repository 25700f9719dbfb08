#include "operator/job/roles.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "operator/job/fnv1a.h"
#include "operator/job/words.h"
#include "trainer/contract/config/trainer_config.h"
#include "trainer/contract/worker/json_fields.h"

namespace coxswain::job {

namespace {

// Where another program's servers hold the weights, its pods can come and go; not MXNet's, whose
// scheduler knows its peers once and for all.
bool is_anothers_that_outlives_a_pod(const Spec& spec) {
  return spec.strategy == Strategy::kParameterServer && !spec.training && !has_scheduler(spec);
}

// Whether a step of ours needs every worker. The configuration's reader judges what is written.
bool is_synchronous(const Spec& spec) {
  const std::string mode =
      contract::text_at(contract::member(*spec.training, "parameterServer"), "mode");
  if (mode.empty()) {
    const auto store = value_of<KvStore>(contract::text_at(*spec.training, "kvStore"));
    return mode_of(store.value_or(KvStore::kNone)) == ServerMode::kSync;
  }
  return mode == word(ServerMode::kSync);
}

bool trains_with_servers(const Spec& spec) {
  return spec.strategy == Strategy::kParameterServer && spec.training;
}

bool outlives_a_worker(const Spec& spec) {
  return is_anothers_that_outlives_a_pod(spec) ||
         (trains_with_servers(spec) && !is_synchronous(spec));
}

// Each of several servers of ours is copied by the next.
bool outlives_a_server(const Spec& spec) {
  return is_anothers_that_outlives_a_pod(spec) ||
         (trains_with_servers(spec) && spec.server && spec.server->replicas > 1);
}

// Of the recorded attempt: a change of the spec counts from the next one on.
int recorded_servers(const TrainingJob& job) {
  if (!job.spec.server || job.status.workers == 0) return 0;
  const auto recorded = job.status.replicas.find(Role::kServer);
  const int desired = recorded == job.status.replicas.end() ? 0 : recorded->second.desired;
  return desired > 0 ? desired : job.spec.server->replicas;
}

constexpr std::array<RoleTraits, 3> kRoles{{
    {.role = Role::kWorker,
     .replicas = [](const Spec& spec) { return &spec.worker; },
     .asked = [](const Spec& spec) { return spec.worker.replicas; },
     .size = [](const TrainingJob& job) { return job.status.workers; },
     .slots = slots_per_worker,
     .serves = [](const Spec& spec,
                  int index) { return launcher(spec) == Launcher::kMpi && index > 0; },
     .is_replaced_alone = outlives_a_worker,
     .port = &Ports::master,
     .endpoint = &Ports::rank,
     .task = "worker"},
    {.role = Role::kServer,
     .replicas = [](const Spec& spec) { return spec.server ? &*spec.server : nullptr; },
     .asked = [](const Spec& spec) { return spec.server->replicas; },
     .size = recorded_servers,
     .slots = [](const Spec&) { return 1; },
     .serves = [](const Spec&, int) { return true; },
     .is_replaced_alone = outlives_a_server,
     .port = &Ports::server,
     .endpoint = &Ports::server_rank,
     .task = "ps"},
    // It starts as MXNet's servers do: the variables alone tell it what it is.
    {.role = Role::kScheduler,
     .replicas = [](const Spec& spec) { return has_scheduler(spec) ? &*spec.server : nullptr; },
     .asked = [](const Spec&) { return 1; },
     .size =
         [](const TrainingJob& job) {
           return has_scheduler(job.spec) && job.status.workers > 0 ? 1 : 0;
         },
     .slots = [](const Spec&) { return 1; },
     .serves = [](const Spec&, int) { return true; },
     .is_replaced_alone = [](const Spec&) { return false; },
     .port = &Ports::scheduler,
     .endpoint = &Ports::scheduler,
     .task = ""},
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
  for (const RoleTraits& traits : roles_of(spec)) pods += traits.asked(spec);
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
          .scheduler = first + 1,  // beside it no rank of ours has an endpoint
          .peer = first + kOfAnyPod};
}

std::string host_name(const TrainingJob& job, Role role, int index) {
  return fmt::format("{}.{}.{}.svc", worker_name(job, role, index), job.metadata.name,
                     job.metadata.name_space);
}

std::string address(const TrainingJob& job, Role role, int index) {
  return fmt::format("{}:{}", host_name(job, role, index), ports_of(job).*traits_of(role).port);
}

std::vector<std::string> addresses(const TrainingJob& job, Role role) {
  std::vector<std::string> all;
  for (int i = 0; i < traits_of(role).size(job); ++i) all.push_back(address(job, role, i));
  return all;
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
  const int in_a_row = kOfAnyPod + (trains_over_tcp(job.spec) ? slots_per_worker(job.spec) : 0);
  const auto draws = static_cast<std::uint32_t>((kEndOfHostPorts - kFirstHostPort) / in_a_row);
  const std::uint32_t draw = scattered(fmt::format("{} {}", job.metadata.uid, attempt)) % draws;
  return kFirstHostPort + in_a_row * static_cast<int>(draw);
}

}  // namespace coxswain::job
