#include "operator/job/host_ports.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "operator/job/fnv1a.h"
#include "operator/job/roles.h"

namespace coxswain::job {

namespace {

// Below NodePorts (30000) and the ports of outgoing connections (32768), above what clusters run on
// their nodes.
constexpr int kFirst = 20000;
constexpr int kInARow = 4;
constexpr int kDraws = 2500;

// With the last mixing of MurmurHash3: attempts differ in their last bits alone.
std::uint32_t scattered(const std::string& text) {
  std::uint32_t hash = fnv1a(text);
  hash = (hash ^ hash >> 16) * 0x85ebca6bU;
  hash = (hash ^ hash >> 13) * 0xc2b2ae35U;
  return hash ^ hash >> 16;
}

}  // namespace

Ports ports_of(const TrainingJob& job) {
  const int first = job.status.host_port;
  if (first == 0) return {};
  return {.ssh = first, .rank = first + 1, .server = first + 2, .master = first + 3};
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
  const std::uint32_t draw = scattered(fmt::format("{} {}", job.metadata.uid, attempt)) % kDraws;
  return kFirst + kInARow * static_cast<int>(draw);
}

}  // namespace coxswain::job
