#include <fmt/format.h>

#include <algorithm>

#include "operator/job/status.h"
#include "tests/simulation/life_steps.h"
#include "trainer/contract/rfc3339.h"

namespace coxswain::test {

namespace {

Workload workload(const std::string& name, std::vector<Step> steps) {
  return {name, std::move(steps)};
}

void add_clean_lives(std::vector<Workload>& all) {
  for (const int workers : {1, 2, 8}) {
    all.push_back(to_success(fmt::format("mpi_{}", workers), mpi(workers), {}, 0, workers));
    all.push_back(workload(
        fmt::format("env_{}", workers),
        {make(env(workers)), runs(0, workers, end_all(workers, 0)), reached("Succeeded", 0)}));
  }
  Json servers = mpi(2);
  servers["strategy"] = "ParameterServer";
  servers["replicaSpecs"]["Server"] = {{"replicas", 2}};
  all.push_back(
      {"parameter_server", {make(servers), runs(0, 4, end_all(2, 0)), reached("Succeeded", 0)}});
}

void add_failures(std::vector<Workload>& all) {
  all.push_back(to_success("fails_once", mpi(2), {runs(0, 2, end(1, 137))}, 1, 2));
  all.push_back(
      to_success("backs_off", mpi(2), {runs(0, 2, end(1, 137)), runs(1, 2, end(1, 137))}, 2, 2));
  all.push_back(workload("fails_for_good",
                         {make(with(mpi(2), {{"backoffLimit", 1}})), runs(0, 2, end(1, 137)),
                          runs(1, 2, end(1, 137)), reached("Failed", 0)}));
  for (const auto& [policy, living] :
       {std::pair("Running", 0), std::pair("All", 0), std::pair("None", 1)})
    all.push_back(workload(fmt::format("clean_{}", policy),
                           {make(with(env(2), {{"backoffLimit", 0}, {"cleanPodPolicy", policy}})),
                            runs(0, 2, end(0, 1)), reached("Failed", living)}));
  all.push_back(to_success("shut_down", mpi(2),
                           {runs(0, 2, [](Scene& scene) { scene.shut_down_node_of(worker(1)); })},
                           1, 2));
  all.push_back(to_success("preempted_one", mpi(2),
                           {runs(0, 2, [](Scene& scene) { scene.preempt(worker(1)); })}, 1, 2));
  all.push_back(to_success("preempted_all", mpi(2),
                           {runs(0, 2,
                                 [](Scene& scene) {
                                   for (int i = 0; i < 2; ++i) scene.preempt(worker(i));
                                 })},
                           1, 2));
  all.push_back(to_success("node_lost", mpi(2),
                           {runs(0, 2, [](Scene& scene) { scene.lose_node_of(worker(1)); })}, 1,
                           2));
  all.push_back(to_success("user_deletes_pod", mpi(2),
                           {runs(0, 2, [](Scene& scene) { scene.delete_pod(worker(0)); })}, 1, 2));
}

void add_suspensions(std::vector<Workload>& all) {
  const Json suspended = {{"runPolicy", {{"suspend", true}}}};
  const Json resumed = {{"runPolicy", {{"suspend", false}}}};
  all.push_back(to_success("suspended", mpi(2),
                           {runs(0, 2, edit(suspended)), reached("Suspended", 0, edit(resumed))}, 1,
                           2));
  const Json gang = {{"schedulingPolicy", {{"gang", "Volcano"}}}};
  all.push_back(to_success("gang", with(mpi(2), gang),
                           {runs(0, 2, edit(suspended)), reached("Suspended", 0, edit(resumed))}, 1,
                           2));
  all.push_back(to_success("suspended_at_creation", with(mpi(2), suspended.at("runPolicy")),
                           {reached("Suspended", 0, edit(resumed))}, 1, 2));
  all.push_back(to_success(
      "suspended_in_the_queue", mpi(2),
      {{"the job is queued", always(), [](Scene& scene) { scene.unschedulable = {worker(1)}; }},
       {"one pod runs", [](const Scene& scene) { return scene.living_pods() == 2; },
        edit(suspended)},
       reached("Suspended", 0,
               [resumed](Scene& scene) {
                 scene.unschedulable.clear();
                 scene.edit_spec(kJob, resumed);
               })},
      1, 2));
}

void add_users(std::vector<Workload>& all) {
  const auto removed = [](Scene& scene) { scene.delete_job(kJob); };
  all.push_back(
      workload("deleted", {make(mpi(2)), runs(0, 2, removed), {"all is gone", all_gone()}}));
  all.push_back(to_success("made_again", mpi(2),
                           {runs(0, 2,
                                 [](Scene& scene) {
                                   scene.delete_job(kJob);
                                   scene.create_job(kJob, mpi(1));
                                 })},
                           0, 1));
  all.push_back(to_success("made_again_at_the_end", mpi(2),
                           {runs(0, 2, end(0, 0)), reached("Succeeded", 0,
                                                           [](Scene& scene) {
                                                             scene.delete_job(kJob);
                                                             scene.create_job(kJob, mpi(2));
                                                           })},
                           0, 2));
  Json elastic = mpi(2);
  elastic["elasticPolicy"] = {{"minReplicas", 1}, {"maxReplicas", 4}};
  for (const auto& [name, size] : {std::pair("grows", 3), std::pair("shrinks", 1)})
    all.push_back(to_success(
        name, elastic, {runs(0, 2, edit({{"replicaSpecs", {{"Worker", {{"replicas", size}}}}}}))},
        1, size));
  all.push_back(to_success("made_again_before_ttl", with(mpi(2), {{"ttlSecondsAfterFinished", 20}}),
                           {runs(0, 2, end(0, 0)),
                            {"the time to live is nearly over",
                             [](const Scene& scene) {
                               const Json status = scene.status_of(kJob);
                               const auto end = parse_rfc3339(status.value("completionTime", ""));
                               const auto now = scene.server.now + scene.laws.caller.skew;
                               const bool is_gone = status.empty();  // its end was heard of late
                               return is_gone || (end && now >= *end + job::Seconds(12));
                             },
                             [](Scene& scene) {
                               scene.delete_job(kJob);
                               scene.create_job(kJob, mpi(2));
                             }}},
                           0, 2));
  all.push_back(workload("ttl", {make(with(mpi(2), {{"ttlSecondsAfterFinished", 20}})),
                                 runs(0, 2, end(0, 0)),
                                 {"all is gone", all_gone()}}));
}

void add_refusals(std::vector<Workload>& all) {
  Json invalid = mpi(2);
  invalid["training"]["model"] = "nonsense";
  all.push_back(to_success(
      "invalid", invalid,
      {{"Invalid", has_condition("Invalid"), edit({{"training", {{"model", "mlp"}}}})}}, 0, 2));
  std::vector<Step> quota = {{"there is a quota", always(),
                              [](Scene& scene) {
                                scene.server.pod_quota = 1;
                                scene.create_job(kJob, mpi(2));
                              }},
                             {"ResourcesRejected", has_condition("ResourcesRejected"),
                              [](Scene& scene) { scene.server.pod_quota.reset(); }}};
  add_success(quota, 0, 2);
  all.push_back(workload("quota", std::move(quota)));
  std::vector<Step> foreign = {
      {"a foreign pod has the name", always(),
       [](Scene& scene) {
         scene.server.create("pods",
                             {{"apiVersion", "v1"},
                              {"kind", "Pod"},
                              {"metadata", {{"name", worker(1)}, {"namespace", kNamespace}}},
                              {"spec", Json::object()}});
         scene.create_job(kJob, mpi(2));
       }},
      {"ResourcesRejected", has_condition("ResourcesRejected"),
       [](Scene& scene) { scene.server.remove("pods", "default/" + worker(1), job::Seconds(0)); }}};
  add_success(foreign, 0, 2);
  all.push_back(workload("name_conflict", std::move(foreign)));
}

}  // namespace

std::vector<Workload> workloads() {
  std::vector<Workload> all;
  add_clean_lives(all);
  add_failures(all);
  add_suspensions(all);
  add_users(all);
  add_refusals(all);
  return all;
}

const Workload& workload_named(const std::string& name) {
  static const std::vector<Workload> all = workloads();
  return *std::ranges::find(all, name, &Workload::name);
}

}  // namespace coxswain::test
