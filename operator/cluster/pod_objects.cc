#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "operator/cluster/base64.h"
#include "operator/cluster/pod.h"
#include "operator/cluster/pod_json.h"
#include "operator/cluster/pod_labels.h"
#include "operator/cluster/pod_trainer.h"
#include "operator/job/fnv1a.h"
#include "operator/job/quantity.h"
#include "operator/job/roles.h"
#include "operator/job/worker_spec.h"
#include "trainer/contract/worker/constants.h"

// The objects of a job other than its pods.
namespace coxswain::cluster {

namespace {

using Amounts = std::map<std::string, double>;

// What every ConfigMap of this job in this size holds.
Json config_data(const job::TrainingJob& job) {
  Json data = {{"hostfile", job::hostfile(job)}};
  const std::string workers = job::worker_names(job);
  if (!workers.empty()) data["workers"] = workers;
  const std::string training = job::training_config(job);
  if (!training.empty()) data["training.yaml"] = training;
  return data;
}

std::string config_map_name(const job::TrainingJob& job, const Json& data) {
  return fmt::format("{}-{:08x}", job.metadata.name, job::fnv1a(data.dump()));
}

void add(const Amounts& amounts, Amounts& sum) {
  for (const auto& [name, amount] : amounts) sum[name] += amount;
}

// Of one container: its requests, and its limits where it makes none.
Amounts requests_of(const Json& container) {
  Amounts amounts;
  const Json* resources = find(container, "resources");
  if (!resources) return amounts;
  for (const char* kind : {"limits", "requests"}) {
    const Json* given = find(*resources, kind);
    if (!given || !given->is_object()) continue;
    for (const auto& [name, amount] : given->items())
      if (const auto value = job::quantity_of(amount)) amounts[name] = *value;
  }
  return amounts;
}

// Init containers run one by one, beside the sidecars among them that were started before
// (restartPolicy Always), which stay and are added to `sum`. What the greediest of them needs.
Amounts requests_of_init_containers(const Json& spec, Amounts& sum) {
  Amounts sidecars, most;
  for (const Json& container : list_at(spec, "initContainers")) {
    Amounts now = sidecars;
    add(requests_of(container), now);
    if (text_at(container, "restartPolicy") == "Always") sidecars = now;
    for (const auto& [name, amount] : now) most[name] = std::max(most[name], amount);
  }
  add(sidecars, sum);
  return most;
}

// Of one pod, as the scheduler counts (component-helpers/resource/helpers.go, PodRequests).
Amounts requests_of(const job::ReplicaSpec& replicas, int slots) {
  Amounts sum;
  if (replicas.pod_template.is_null())
    return requests_of(Json{{"resources", default_resources(slots)}});
  const Json* spec = find(replicas.pod_template, "spec");
  if (!spec) return sum;
  for (const Json& container : list_at(*spec, "containers")) add(requests_of(container), sum);
  for (const auto& [name, amount] : requests_of_init_containers(*spec, sum))
    sum[name] = std::max(sum[name], amount);
  // Of the whole pod, where the template says so.
  for (const auto& [name, amount] : requests_of(*spec)) sum[name] = amount;
  if (const Json* overhead = find(*spec, "overhead"))
    add(requests_of(Json{{"resources", {{"requests", *overhead}}}}), sum);
  return sum;
}

// As a quantity: whole, or in thousandths.
std::string quantity(double amount) {
  const double whole = std::nearbyint(amount);
  if (std::abs(amount - whole) < 1e-6) return fmt::format("{:.0f}", whole);
  return fmt::format("{:.0f}m", std::ceil(amount * 1000 - 1e-6));
}

// What the first `pods` of the gang ask for.
Json min_resources(const job::TrainingJob& job, int pods) {
  Amounts sum;
  for (const job::RoleTraits& traits : job::roles_of(job.spec)) {
    const int count = std::min(pods, traits.size(job));
    pods -= count;
    for (const auto& [name, amount] :
         requests_of(*traits.replicas(job.spec), traits.slots(job.spec)))
      sum[name] += count * amount;
  }
  Json resources = Json::object();
  for (const auto& [name, amount] : sum) resources[name] = quantity(amount);
  return resources;
}

Json port(const char* name, int number) {
  return {{"name", name}, {"port", number}, {"protocol", "TCP"}};
}

}  // namespace

std::string service_name(const job::TrainingJob& job) { return job.metadata.name; }

std::string pod_group_name(const job::TrainingJob& job) { return job.metadata.name; }

std::string secret_name(const job::TrainingJob& job) { return job.status.keys_secret; }

std::string config_map_name(const job::TrainingJob& job) {
  return config_map_name(job, config_data(job));
}

Json service(const job::TrainingJob& job) {
  const Json ports =
      Json::array({port("ssh", contract::kSshPort), port("metrics", contract::kRankPort),
                   port("server", contract::kServerPort), port("master", contract::kMasterPort)});
  return {{"apiVersion", "v1"},
          {"kind", "Service"},
          {"metadata", object_metadata(job, service_name(job))},
          {"spec",
           {{"clusterIP", "None"},
            {"publishNotReadyAddresses", true},  // peers look for each other before they are Ready
            {"ports", ports},
            {"selector", {{kJobLabel, job.metadata.name}}}}}};
}

Json secret(const job::TrainingJob& job, const JobKeys& keys) {
  Json data = Json::object();
  const auto put = [&](std::string_view file, const std::string& bytes) {
    data[std::string(file)] = base64(bytes);
  };
  put(contract::kClientKeyFile, keys.client_key);
  put(contract::kAuthorizedKeysFile, keys.authorized_key);
  put(contract::kHostKeyFile, keys.host_key);
  put(contract::kKnownHostsFile, keys.known_hosts);
  put(contract::kServerKeyFile, keys.server_key);
  return {{"apiVersion", "v1"},
          {"kind", "Secret"},
          {"metadata", object_metadata(job, secret_name(job))},
          {"type", "Opaque"},
          {"immutable", true},
          {"data", data}};
}

Json config_map(const job::TrainingJob& job) {
  Json data = config_data(job);
  return {{"apiVersion", "v1"},
          {"kind", "ConfigMap"},
          {"metadata", object_metadata(job, config_map_name(job, data))},
          {"immutable", true},
          {"data", std::move(data)}};
}

Json pod_group(const job::TrainingJob& job) {
  const job::SchedulingPolicy& policy = job.spec.run_policy.scheduling;
  const bool volcano = policy.gang == job::GangScheduler::kVolcano;
  // A gang that starts degraded may be smaller than what was asked for.
  const int all = static_cast<int>(job::gang(job).size());
  const int pods = std::min(policy.min_available.value_or(all), all);
  Json spec = {{"minMember", pods}};
  // With them the coscheduling plug-in (v0.33) looks again at a group that did not fit when pods
  // are made, but not when they end: measured, 316 s after the gang before; 0.3 s without.
  if (volcano) spec["minResources"] = min_resources(job, pods);
  if (policy.min_resources.is_object()) spec["minResources"] = policy.min_resources;
  if (volcano && !policy.queue.empty()) spec["queue"] = policy.queue;
  if (volcano && !policy.priority_class.empty()) spec["priorityClassName"] = policy.priority_class;
  if (!volcano && policy.schedule_timeout)
    spec["scheduleTimeoutSeconds"] = policy.schedule_timeout->count();
  return {
      {"apiVersion", volcano ? "scheduling.volcano.sh/v1beta1" : "scheduling.x-k8s.io/v1alpha1"},
      {"kind", "PodGroup"},
      {"metadata", object_metadata(job, pod_group_name(job))},
      {"spec", spec}};
}

}  // namespace coxswain::cluster
