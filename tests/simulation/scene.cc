#include "tests/simulation/scene.h"

#include <fmt/format.h>

#include "operator/cluster/pod.h"
#include "operator/job/job_reader.h"
#include "trainer/contract/exit_code.h"
#include "trainer/contract/rfc3339.h"
#include "trainer/contract/worker/termination_message.h"

namespace coxswain::test {

using job::Seconds;

namespace {

constexpr int kGarbagePeriod = 4;  // s
constexpr int kTaintGrace = 30;

std::string key(const std::string& name) { return fmt::format("{}/{}", kNamespace, name); }

std::string name_of(const Json& object) { return object.at("metadata").at("name"); }

std::string uid_of(const Json& object) { return object.at("metadata").at("uid"); }

void set_condition(Json& pod, const std::string& type, bool value, const std::string& reason,
                   job::Time now) {
  Json& conditions = pod["status"]["conditions"];
  if (conditions.is_null()) conditions = Json::array();
  const Json condition = {{"type", type},
                          {"status", value ? "True" : "False"},
                          {"reason", reason},
                          {"lastTransitionTime", to_rfc3339(now)}};
  for (Json& each : conditions)
    if (each.at("type") == type) {
      each = condition;
      return;
    }
  conditions.push_back(condition);
}

bool has_true(const Json& status, const std::string& type) {
  if (!status.contains("conditions")) return false;
  for (const Json& each : status.at("conditions"))
    if (each.at("type") == type) return each.at("status") == "True";
  return false;
}

std::string trainer_of(const Json& pod) {
  const Json annotations = pod.at("metadata").value("annotations", Json::object());
  return annotations.value("kubectl.kubernetes.io/default-container", "trainer");
}

void set_trainer(Json& pod, const std::string& state, const Json& details) {
  pod["status"]["containerStatuses"] =
      Json::array({{{"name", trainer_of(pod)}, {"state", {{state, details}}}}});
}

// The trainer's last words, where its code means something of ours.
std::string said(int exit_code) {
  if (exit_code != static_cast<int>(ExitCode::kSaved)) return "";
  contract::TerminationMessage message;
  message.exit_code = exit_code;
  message.reason = "Stopped";
  return contract::to_json(message);
}

void tell_to_leave(Json& pod, Seconds grace, job::Time now) {
  if (is_terminating(pod)) return;
  pod["metadata"]["deletionTimestamp"] = to_rfc3339(now + grace);
  pod["metadata"]["deletionGracePeriodSeconds"] = grace.count();
}

}  // namespace

void Scene::step() {
  server.now += Seconds(1);
  for (const Object& each : pods())
    if (!mute_.contains(uid_of(*each))) live(*each);
  if (server.now.time_since_epoch().count() % kGarbagePeriod == 0) server.collect_garbage();
}

void Scene::live(const Json& each) {
  const std::string name = name_of(each);
  if (is_terminating(each)) {
    if (is_living_pod(each))
      end_pod(name, static_cast<int>(ExitCode::kSaved));
    else
      server.remove("pods", key(name), Seconds(0));
    return;
  }
  if (!is_living_pod(each) || each.at("status").at("phase") == "Running") return;
  if (each.at("spec").contains("nodeName")) {
    edit_pod(name, [&](Json& pod) {
      pod["status"]["phase"] = "Running";
      pod["status"]["podIP"] = "10.0.0.1";
      set_trainer(pod, "running", {{"startedAt", to_rfc3339(server.now)}});
      set_condition(pod, "Ready", true, "", server.now);
    });
  } else if (!unschedulable.contains(name)) {
    edit_pod(name, [&](Json& pod) {
      pod["spec"]["nodeName"] = "node-" + name;
      set_condition(pod, "PodScheduled", true, "", server.now);
    });
  }
}

void Scene::create_job(const std::string& name, const Json& spec) {
  server.create("trainingjobs", {{"apiVersion", job::kApiVersion},
                                 {"kind", job::kKind},
                                 {"metadata", {{"name", name}, {"namespace", kNamespace}}},
                                 {"spec", spec}});
}

void Scene::edit_spec(const std::string& name, const Json& merge_patch) {
  server.edit("trainingjobs", key(name),
              [&](Json& object) { object["spec"].merge_patch(merge_patch); });
}

void Scene::delete_job(const std::string& name) { server.remove("trainingjobs", key(name)); }

void Scene::edit_pod(const std::string& name, const std::function<void(Json&)>& change) {
  server.edit("pods", key(name), change);
}

void Scene::end_pod(const std::string& name, int exit_code, const std::string& reason) {
  edit_pod(name, [&](Json& pod) {
    pod["status"]["phase"] = exit_code == 0 ? "Succeeded" : "Failed";
    const std::string why = exit_code == 0 ? "Completed" : reason.empty() ? "Error" : reason;
    set_trainer(pod, "terminated",
                {{"exitCode", exit_code},
                 {"reason", why},
                 {"message", said(exit_code)},
                 {"finishedAt", to_rfc3339(server.now)}});
    set_condition(pod, "Ready", false, "", server.now);
  });
}

void Scene::shut_down_node_of(const std::string& name, const std::string& reason) {
  if (pod(name)) laws.disturbed(*pod(name));
  edit_pod(name, [&](Json& each) {
    each["status"]["phase"] = "Failed";
    each["status"]["reason"] = reason;
    each["status"].erase("containerStatuses");
    set_condition(each, "Ready", false, "", server.now);
  });
}

void Scene::preempt(const std::string& name) {
  if (pod(name)) laws.disturbed(*pod(name));
  edit_pod(name, [&](Json& each) {
    set_condition(each, "DisruptionTarget", true, "PreemptionByScheduler", server.now);
    tell_to_leave(each, Seconds(kTaintGrace), server.now);
  });
}

void Scene::lose_node_of(const std::string& name) {
  if (!pod(name)) return;
  mute(name);
  laws.disturbed(*pod(name));
  edit_pod(name, [&](Json& each) {
    set_condition(each, "DisruptionTarget", true, "DeletionByTaintManager", server.now);
    set_condition(each, "Ready", false, "NodeNotReady", server.now);
    tell_to_leave(each, Seconds(kTaintGrace), server.now);
  });
}

void Scene::mute(const std::string& name) {
  if (pod(name)) mute_.insert(uid_of(*pod(name)));
}

void Scene::delete_pod(const std::string& name) {
  if (pod(name)) laws.disturbed(*pod(name));
  server.remove("pods", key(name));
}

Json Scene::status_of(const std::string& job) const {
  const Object found = server.find("trainingjobs", key(job));
  return found ? found->value("status", Json::object()) : Json::object();
}

std::string Scene::phase_of(const std::string& job) const {
  return status_of(job).value("phase", "");
}

bool Scene::has_condition(const std::string& job, const std::string& type) const {
  return has_true(status_of(job), type);
}

Object Scene::pod(const std::string& name) const { return server.find("pods", key(name)); }

std::vector<Object> Scene::pods() const { return server.all("pods"); }

bool Scene::is_ready(int attempt, int count) const {
  int ready = 0;
  for (const Object& each : pods()) {
    const auto worker = cluster::worker_of(*each);
    if (!worker || worker->id.attempt != attempt || worker->deletion_time) return false;
    ready += worker->ready;
  }
  return ready == count;
}

int Scene::living_pods() const {
  int living = 0;
  for (const Object& each : pods()) living += is_living_pod(*each);
  return living;
}

namespace {

Json masked_status(const Json& status) {
  Json masked = Json::object();
  for (const char* field : {"phase", "attempt", "workers", "restarts", "backoffStep", "image",
                            "succeededRanks", "replicaStatuses", "observedGeneration", "selector"})
    if (status.contains(field)) masked[field] = status.at(field);
  if (status.contains("lastFailure"))
    for (const char* field : {"attempt", "pod"})
      if (status.at("lastFailure").contains(field))
        masked["lastFailure"][field] = status.at("lastFailure").at(field);
  for (const char* time : {"startTime", "completionTime", "nextRetryTime"})
    masked[time] = status.contains(time);
  for (const Json& condition : status.value("conditions", Json::array()))
    if (condition.at("status") == "True")
      masked["conditions"][condition.at("type").get<std::string>()] = condition.at("reason");
  return masked;
}

}  // namespace

Json Scene::end_state() const {
  Json state = Json::object();
  for (const Object& job : server.all("trainingjobs"))
    state["jobs"][name_of(*job)] = masked_status(job->value("status", Json::object()));
  for (const Object& each : pods()) {
    const auto worker = cluster::worker_of(*each);
    state["pods"][name_of(*each)] = {{"attempt", worker ? worker->id.attempt : -1},
                                     {"phase", each->at("status").at("phase")},
                                     {"terminating", is_terminating(*each)}};
  }
  for (const char* resource : {"services", "configmaps", "secrets", "podgroups"})
    for (const Object& object : server.all(resource)) {
      std::string name = name_of(*object);
      if (std::string(resource) == "secrets") name.resize(name.size() - 16);  // which were drawn
      Json& names = state[resource];
      if (names.empty() || names.back() != name) names.push_back(name);
    }
  return state;
}

}  // namespace coxswain::test
