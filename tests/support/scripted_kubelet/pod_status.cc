#include "tests/support/scripted_kubelet/pod_status.h"

namespace coxswain::scripted {

namespace {

Json condition(const char* type, bool status, const std::string& reason, const std::string& message,
               const std::string& now) {
  Json json = {{"type", type}, {"status", status ? "True" : "False"}, {"lastTransitionTime", now}};
  if (!reason.empty()) json["reason"] = reason;
  if (!message.empty()) json["message"] = message;
  return json;
}

Json conditions(bool ready, const std::string& reason, const std::string& now) {
  return {condition("PodScheduled", true, "", "", now), condition("Initialized", true, "", "", now),
          condition("ContainersReady", ready, reason, "", now),
          condition("Ready", ready, reason, "", now)};
}

// One status for each container of the pod, all in one state.
Json container_statuses(const Json& pod, const Json& state, bool ready) {
  Json statuses = Json::array();
  for (const Json& container : pod.at("spec").at("containers"))
    statuses.push_back({{"name", container.at("name")},
                        {"image", container.value("image", "")},
                        {"imageID", ""},
                        {"ready", ready},
                        {"started", ready},
                        {"restartCount", 0},
                        {"state", state}});
  return statuses;
}

Json refused(const Life& life, const std::string& now) {
  return {
      {"phase", "Pending"},
      {"conditions",
       Json::array({condition("PodScheduled", false, "Unschedulable", life.unschedulable, now)})}};
}

Json held(const Json& pod, const Life& life, const std::string& now) {
  return {{"phase", "Pending"},
          {"startTime", now},
          {"conditions", conditions(false, "ContainersNotReady", now)},
          {"containerStatuses",
           container_statuses(pod, {{"waiting", {{"reason", life.waiting}}}}, false)}};
}

Json running(const Json& pod, const Life& life, const std::string& now) {
  Json status = {
      {"phase", "Running"},
      {"startTime", now},
      {"conditions", conditions(true, "", now)},
      {"containerStatuses", container_statuses(pod, {{"running", {{"startedAt", now}}}}, true)}};
  if (!life.ip.empty()) {
    status["podIP"] = life.ip;
    status["podIPs"] = Json::array({{{"ip", life.ip}}});
  }
  return status;
}

Json ended(const Json& pod, const Life& life, int code, const std::string& now) {
  const bool good = life.phase.empty() ? code == 0 : life.phase == "Succeeded";
  Json status = {{"phase", good ? "Succeeded" : "Failed"},
                 {"conditions", conditions(false, good ? "PodCompleted" : "PodFailed", now)}};
  if (!life.disruption.empty())
    status["conditions"].push_back(
        condition("DisruptionTarget", true, life.disruption, "scripted", now));
  if (life.no_container_status) {
    status["containerStatuses"] = nullptr;  // those of when it ran go, too
    return status;
  }
  std::string reason = life.reason;
  if (reason.empty()) reason = code == 0 ? "Completed" : "Error";
  Json terminated = {
      {"exitCode", code}, {"reason", reason}, {"startedAt", now}, {"finishedAt", now}};
  if (!life.message.empty()) terminated["message"] = life.message;
  status["containerStatuses"] = container_statuses(pod, {{"terminated", terminated}}, false);
  return status;
}

}  // namespace

Json status_patch(const Json& pod, const Life& life, Act act, const std::string& now) {
  Json status;
  switch (act) {
    case Act::kRefuse:
      status = refused(life, now);
      break;
    case Act::kHold:
      status = held(pod, life, now);
      break;
    case Act::kRun:
      status = running(pod, life, now);
      break;
    case Act::kEnd:
      status = ended(pod, life, life.exit_code, now);
      break;
    case Act::kStop:
      status = ended(pod, Life{.message = life.message}, *life.stop_exit, now);
      break;
    case Act::kNothing:
    case Act::kWait:
    case Act::kBind:
    case Act::kRemove:
      return nullptr;
  }
  return {{"metadata", {{"uid", pod.at("metadata").at("uid")}}}, {"status", status}};
}

Json binding(const std::string& name_space, const std::string& name, const std::string& uid,
             const std::string& node) {
  return {{"apiVersion", "v1"},
          {"kind", "Binding"},
          {"metadata", {{"name", name}, {"namespace", name_space}, {"uid", uid}}},
          {"target", {{"apiVersion", "v1"}, {"kind", "Node"}, {"name", node}}}};
}

Json node(const std::string& name, const std::string& now) {
  Json ready = condition("Ready", true, "Scripted", "", now);
  ready["lastHeartbeatTime"] = now;
  return {
      {"apiVersion", "v1"},
      {"kind", "Node"},
      {"metadata", {{"name", name}}},
      {"spec",
       {{"taints", Json::array({{{"key", "coxswain.test/scripted"}, {"effect", "NoSchedule"}}})}}},
      {"status",
       {{"conditions", Json::array({ready})},
        {"capacity", {{"cpu", "1k"}, {"memory", "4Ti"}, {"pods", "10k"}}},
        {"allocatable", {{"cpu", "1k"}, {"memory", "4Ti"}, {"pods", "10k"}}}}}};
}

Json node_lease(const std::string& name, const std::string& now) {
  std::string micro = now;
  micro.replace(micro.size() - 1, 1, ".000000Z");
  return {{"apiVersion", "coordination.k8s.io/v1"},
          {"kind", "Lease"},
          {"metadata", {{"name", name}, {"namespace", "kube-node-lease"}}},
          {"spec", {{"holderIdentity", name}, {"leaseDurationSeconds", 40}, {"renewTime", micro}}}};
}

}  // namespace coxswain::scripted
