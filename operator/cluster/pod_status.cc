#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "operator/cluster/pod.h"
#include "operator/cluster/pod_json.h"
#include "operator/cluster/pod_labels.h"
#include "trainer/contract/printable.h"
#include "trainer/contract/rfc3339.h"
#include "trainer/contract/worker/constants.h"

// What the API server knows of a pod, as a Worker.
namespace coxswain::cluster {

namespace {

using job::WorkerPhase;

constexpr int kMostIndices = 1 << 20;
constexpr std::size_t kMostMessageBytes = 512;
// A disruption that comes so long after the trainer's end did not cause it; clocks may differ less.
constexpr job::Seconds kAfterTheEnd{10};

std::optional<int> number_in(const Json& labels, const char* key) {
  const std::string text = text_at(labels, key);
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && value >= 0 ? std::optional(value) : std::nullopt;
}

// Anybody who may write a pod may write its labels: those that its name contradicts name no worker.
std::optional<job::WorkerId> id_of(const std::string& name, const Json& labels) {
  const std::string type = text_at(labels, kReplicaTypeLabel);
  const auto index = number_in(labels, kReplicaIndexLabel);
  const auto attempt = number_in(labels, kAttemptLabel);
  const auto incarnation =
      labels.contains(kIncarnationLabel) ? number_in(labels, kIncarnationLabel) : 0;
  const auto role = contract::role_of(type);
  if (!role || !index || *index > kMostIndices || !attempt || !incarnation)
    return std::nullopt;
  if (name != fmt::format("{}-{}-{}", text_at(labels, kJobLabel), type, *index))
    return std::nullopt;
  return job::WorkerId{*role, *index, *attempt, *incarnation};
}

int integer_at(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (!value.is_number_integer()) return 0;
  const auto number = value.get<std::int64_t>();
  return number >= INT32_MIN && number <= INT32_MAX ? static_cast<int>(number) : 0;
}

// The last line that says something: of a trace back, of a log. At most kMostMessageBytes.
std::string last_line(std::string text) {
  const std::size_t end = text.find_last_not_of(" \t\r\n");
  if (end == std::string::npos) return "";
  text.resize(end + 1);
  const std::size_t start = text.find_last_of('\n');
  if (start != std::string::npos) text.erase(0, start + 1);
  return shortened(text, kMostMessageBytes, "...");
}

const Json* condition(const Json& status, const char* type) {
  for (const Json& each : list_at(status, "conditions"))
    if (text_at(each, "type") == type) return &each;
  return nullptr;
}

bool is_true(const Json* condition) { return condition && text_at(*condition, "status") == "True"; }

// The status of the container that trains; null where there is none yet.
const Json& trainer_status(const Json& pod) {
  const Json& statuses = list_at(member(pod, "status"), "containerStatuses");
  std::string name = text_at(member(member(pod, "metadata"), "annotations"), kTrainerAnnotation);
  if (name.empty()) name = contract::kTrainerContainer;
  for (const Json& status : statuses)
    if (text_at(status, "name") == name) return status;
  return statuses.size() == 1 ? statuses[0] : member(Json(), "");
}

void enter_end(const Json& terminated, job::Worker& worker) {
  const int code = integer_at(terminated, "exitCode");
  const int signal = integer_at(terminated, "signal");
  worker.exit_code = code == 0 && signal > 0 ? 128 + signal : code;
  worker.phase = *worker.exit_code == 0 ? WorkerPhase::kSucceeded : WorkerPhase::kFailed;
  worker.reason = text_at(terminated, "reason");
  worker.finished_time = parse_rfc3339(text_at(terminated, "finishedAt"));
  const std::string said = text_at(terminated, "message");
  worker.termination_message = contract::parse_termination_message(said);
  worker.message =
      last_line(worker.termination_message ? worker.termination_message->message : said);
}

void enter_waiting(const Json& waiting, const std::string& where, job::Worker& worker) {
  worker.reason = text_at(waiting, "reason");
  worker.message = last_line(where + text_at(waiting, "message"));
}

// An init container that failed, or that can't start.
void enter_init_containers(const Json& status, job::Worker& worker) {
  for (const Json& each : list_at(status, "initContainerStatuses")) {
    const Json& state = member(each, "state");
    const std::string where = "init container " + text_at(each, "name") + ": ";
    const Json& terminated = member(state, "terminated");
    if (terminated.is_object() && integer_at(terminated, "exitCode") != 0) {
      enter_end(terminated, worker);
      worker.termination_message.reset();
      worker.phase = WorkerPhase::kPending;  // until the pod says that it is over
      worker.message = where + (worker.message.empty() ? worker.reason : worker.message);
      return;
    }
    const Json& waiting = member(state, "waiting");
    if (waiting.is_object() && text_at(waiting, "reason") != "PodInitializing")
      return enter_waiting(waiting, where, worker);
  }
}

void enter_trainer(const Json& pod, job::Worker& worker) {
  const Json& status = member(pod, "status");
  const Json& state = member(trainer_status(pod), "state");
  const Json& waiting = member(state, "waiting");
  const Json& terminated = member(state, "terminated");
  if (terminated.is_object()) return enter_end(terminated, worker);
  if (member(state, "running").is_object()) {
    worker.phase = WorkerPhase::kRunning;
    return;
  }
  if (waiting.is_object()) enter_waiting(waiting, "", worker);
  enter_init_containers(status, worker);
}

// Where the pod's word stands against or above that of its container.
void enter_pod_phase(const Json& status, job::Worker& worker) {
  const std::string phase = text_at(status, "phase");
  const bool ended =
      worker.phase == WorkerPhase::kSucceeded || worker.phase == WorkerPhase::kFailed;
  worker.lingers = ended && phase != "Succeeded" && phase != "Failed";
  if (!ended && phase == "Running" && !list_at(status, "containerStatuses").size())
    worker.phase = WorkerPhase::kRunning;
  if (!ended && phase == "Succeeded") {
    worker.phase = WorkerPhase::kSucceeded;
    worker.exit_code = 0;
  }
  if (phase != "Failed" || worker.phase == WorkerPhase::kSucceeded) return;
  worker.phase = WorkerPhase::kFailed;
  // Evicted, NodeShutdown, OutOfcpu: the kubelet's words about the whole pod.
  if (worker.reason == "OOMKilled" || text_at(status, "reason").empty()) return;
  worker.reason = text_at(status, "reason");
  worker.message = last_line(text_at(status, "message"));
}

void enter_conditions(const Json& status, job::Worker& worker) {
  const Json* scheduled = condition(status, "PodScheduled");
  worker.scheduled = is_true(scheduled) || !worker.node.empty();
  if (!worker.scheduled && scheduled && worker.phase == WorkerPhase::kPending) {
    worker.reason = text_at(*scheduled, "reason");
    worker.message = last_line(text_at(*scheduled, "message"));
  }
  worker.ready = worker.phase == WorkerPhase::kRunning && is_true(condition(status, "Ready"));
  const Json* disruption = condition(status, "DisruptionTarget");
  if (!is_true(disruption)) return;
  const auto time = parse_rfc3339(text_at(*disruption, "lastTransitionTime"));
  const bool too_late =
      time && worker.finished_time && *time > *worker.finished_time + kAfterTheEnd;
  if (!too_late) worker.disruption = text_at(*disruption, "reason");
}

}  // namespace

std::optional<job::Worker> worker_of(const Json& pod) {
  const Json& metadata = member(pod, "metadata");
  const auto id = id_of(text_at(metadata, "name"), member(metadata, "labels"));
  if (!id) return std::nullopt;
  job::Worker worker;
  worker.id = *id;
  worker.uid = text_at(metadata, "uid");
  worker.node = text_at(member(pod, "spec"), "nodeName");
  worker.deletion_time = parse_rfc3339(text_at(metadata, "deletionTimestamp"));
  worker.grace = job::Seconds(std::max(0, integer_at(metadata, "deletionGracePeriodSeconds")));
  enter_trainer(pod, worker);
  enter_pod_phase(member(pod, "status"), worker);
  enter_conditions(member(pod, "status"), worker);
  return worker;
}

std::string job_key_of(const Json& pod) {
  const Json& metadata = member(pod, "metadata");
  const std::string name = text_at(member(metadata, "labels"), kJobLabel);
  return name.empty() ? "" : text_at(metadata, "namespace") + "/" + name;
}

}  // namespace coxswain::cluster
