#include "operator/job/scheduling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "operator/job/amounts.h"
#include "operator/job/json_fields.h"
#include "operator/job/roles.h"
#include "operator/job/worker_spec.h"

namespace coxswain::job {

namespace {

// Of one pod, as the scheduler counts (component-helpers/resource/helpers.go, PodRequests).
Amounts requests_of_pod(const ReplicaSpec& replicas, int slots) {
  if (replicas.pod_template.is_null())
    return requests_of(Json{{"resources", default_resources(slots)}});
  const Json* spec = find(replicas.pod_template, "spec");
  if (!spec) return {};
  Amounts sum = requests_of_containers(*spec);
  // Of the whole pod, where the template says so.
  for (const auto& [name, amount] : requests_of(*spec)) sum[name] = amount;
  if (const Json* overhead = find(*spec, "overhead")) add(amounts_of(*overhead), sum);
  return sum;
}

// As a quantity: whole, or in thousandths.
std::string quantity(double amount) {
  const double whole = std::nearbyint(amount);
  if (std::abs(amount - whole) < 1e-6) return fmt::format("{:.0f}", whole);
  return fmt::format("{:.0f}m", std::ceil(amount * 1000 - 1e-6));
}

// What the first `pods` of the gang ask for.
Json min_resources(const TrainingJob& job, int pods) {
  Amounts sum;
  for (const RoleTraits& traits : roles_of(job.spec)) {
    const int count = std::min(pods, traits.size(job));
    pods -= count;
    for (const auto& [name, amount] :
         requests_of_pod(*traits.replicas(job.spec), traits.slots(job.spec)))
      sum[name] += count * amount;
  }
  Json resources = Json::object();
  for (const auto& [name, amount] : sum) resources[name] = quantity(amount);
  return resources;
}

// Kueue's group of plain pods, which its webhook takes by these alone. One an attempt: pods that
// have ended are not replaced in it, so that it ends with them, and never waits for others.
void add_kueue(const TrainingJob& job, PodMarks& marks) {
  marks.labels["kueue.x-k8s.io/queue-name"] = job.spec.run_policy.scheduling.queue;
  marks.labels["kueue.x-k8s.io/pod-group-name"] =
      fmt::format("{}-{}", job.metadata.name, job.status.attempt);
  marks.annotations["kueue.x-k8s.io/pod-group-total-count"] = std::to_string(gang(job).size());
  marks.annotations["kueue.x-k8s.io/retriable-in-group"] = "false";
}

Json near_the_others(const TrainingJob& job, const std::string& topology_key) {
  constexpr int kMostWeight = 100;
  const Json pods = {{"matchLabels", {{"coxswain.dev/job", job.metadata.name}}}};
  return {{"weight", kMostWeight},
          {"podAffinityTerm", {{"labelSelector", pods}, {"topologyKey", topology_key}}}};
}

bool is_volcano(const SchedulingPolicy& policy) { return policy.gang == GangScheduler::kVolcano; }

}  // namespace

std::string pod_group_name(const TrainingJob& job) { return job.metadata.name; }

PodGroup pod_group(const TrainingJob& job) {
  const SchedulingPolicy& policy = job.spec.run_policy.scheduling;
  const bool volcano = is_volcano(policy);
  // A gang that starts degraded may be smaller than what was asked for.
  const int all = static_cast<int>(gang(job).size());
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
  return {volcano ? "scheduling.volcano.sh/v1beta1" : "scheduling.x-k8s.io/v1alpha1",
          pod_group_name(job), std::move(spec)};
}

PodMarks pod_marks(const TrainingJob& job) {
  const SchedulingPolicy& policy = job.spec.run_policy.scheduling;
  PodMarks marks;
  marks.priority_class = policy.priority_class;
  if (is_volcano(policy)) {
    marks.scheduler = "volcano";
    marks.annotations["scheduling.k8s.io/group-name"] = pod_group_name(job);
  }
  // Coscheduling is a plug-in: of the default scheduler, or of one that the template names.
  if (policy.gang == GangScheduler::kCoscheduling)
    marks.labels["scheduling.x-k8s.io/pod-group"] = pod_group_name(job);
  if (policy.gang == GangScheduler::kKueue) add_kueue(job, marks);
  if (!policy.topology_key.empty()) marks.affinity = near_the_others(job, policy.topology_key);
  return marks;
}

void drop_pod_group(Plan& plan) {
  if (plan.status.pod_group == GangScheduler::kNone) return;
  plan.actions.push_back(DeletePodGroup{plan.status.pod_group});
  plan.status.pod_group = GangScheduler::kNone;
}

}  // namespace coxswain::job
