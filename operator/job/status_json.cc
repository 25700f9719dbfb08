#include "operator/job/status_json.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cstdio>

#include "operator/job/job_reader.h"
#include "operator/job/words.h"

namespace coxswain::job {

namespace {

constexpr int kLastHostPort = 65535 - 3;  // the first of four

// Fields of an object that may be anything: what doesn't fit reads as absent.
std::optional<std::int64_t> get_integer(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<std::int64_t>();
}

std::optional<double> get_number(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

std::string get_text(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<Time> get_time(const Json& object, const char* key) {
  return parse_time(get_text(object, key));
}

const Json& get_object(const Json& object, const char* key) {
  static const Json empty = Json::object();
  const auto found = object.find(key);
  return found != object.end() && found->is_object() ? *found : empty;
}

// Far above what the operator ever counts to, and low enough that counts can be added up.
constexpr std::int64_t kMostCount = 500'000'000;

int get_count(const Json& object, const char* key) {
  const std::int64_t value = get_integer(object, key).value_or(0);
  return value < 0 || value > kMostCount ? 0 : static_cast<int>(value);
}

// A gang has no more workers than a spec can ask for.
int get_workers(const Json& json) {
  const int workers = get_count(json, "workers");
  return workers <= kMaxWorkers ? workers : 0;
}

void put(Json& object, const char* key, const std::string& value) {
  if (!value.empty()) object[key] = value;
}

void put(Json& object, const char* key, const std::optional<Time>& value) {
  if (value) object[key] = to_text(*value);
}

template <class T>
void put_number(Json& object, const char* key, const std::optional<T>& value) {
  if (value) object[key] = *value;
}

Json to_json(const Restarts& restarts) {
  // What nobody asked for, in one number: a column shows it, nothing reads it back.
  const int total = restarts.failure + restarts.preemption + restarts.node + restarts.startup;
  return {
      {"total", total},        {"failure", restarts.failure}, {"preemption", restarts.preemption},
      {"node", restarts.node}, {"startup", restarts.startup}, {"resize", restarts.resize}};
}

Restarts read_restarts(const Json& json) {
  return {get_count(json, "failure"), get_count(json, "preemption"), get_count(json, "node"),
          get_count(json, "startup"), get_count(json, "resize")};
}

Json to_json(const Failure& failure) {
  Json json = {{"time", to_text(failure.time)},
               {"attempt", failure.attempt},
               {"role", word(kRoles, failure.role)},
               {"index", failure.index}};
  put_number(json, "rank", failure.rank);
  put(json, "pod", failure.pod);
  put(json, "node", failure.node);
  put_number(json, "exitCode", failure.exit_code);
  put(json, "reason", failure.reason);
  put(json, "phase", failure.phase);
  put(json, "message", failure.message);
  return json;
}

std::optional<int> as_int(std::optional<std::int64_t> value) {
  return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

std::optional<Failure> read_failure(const Json& json) {
  if (json.empty()) return std::nullopt;
  Failure failure;
  failure.time = get_time(json, "time").value_or(Time{});
  failure.attempt = get_count(json, "attempt");
  failure.role = value_of(kRoles, get_text(json, "role")).value_or(Role::kWorker);
  failure.index = get_count(json, "index");
  failure.rank = as_int(get_integer(json, "rank"));
  failure.pod = get_text(json, "pod");
  failure.node = get_text(json, "node");
  failure.exit_code = as_int(get_integer(json, "exitCode"));
  failure.reason = get_text(json, "reason");
  failure.phase = get_text(json, "phase");
  failure.message = get_text(json, "message");
  return failure;
}

Json to_json(const ReplicaStatus& replicas) {
  return {{"desired", replicas.desired},
          {"ready", replicas.ready},
          {"active", replicas.active},
          {"succeeded", replicas.succeeded},
          {"failed", replicas.failed}};
}

ReplicaStatus read_replicas(const Json& json) {
  return {get_count(json, "desired"), get_count(json, "ready"), get_count(json, "active"),
          get_count(json, "succeeded"), get_count(json, "failed")};
}

Json to_json(const Progress& progress) {
  Json json = {{"epoch", progress.epoch},
               {"epochs", progress.epochs},
               {"step", progress.step},
               {"steps", progress.steps},
               {"samplesPerSecond", progress.samples_per_second},
               {"worldSize", progress.world_size},
               {"time", progress.time}};
  put_number(json, "loss", progress.loss);
  put_number(json, "accuracy", progress.accuracy);
  put_number(json, "secondsLeft", progress.seconds_left);
  put_number(json, "scalingEfficiency", progress.scaling_efficiency);
  return json;
}

std::optional<Progress> read_progress(const Json& json) {
  if (json.empty()) return std::nullopt;
  Progress progress;
  progress.epoch = get_integer(json, "epoch").value_or(0);
  progress.epochs = get_integer(json, "epochs").value_or(0);
  progress.step = get_integer(json, "step").value_or(0);
  progress.steps = get_integer(json, "steps").value_or(0);
  progress.loss = get_number(json, "loss");
  progress.accuracy = get_number(json, "accuracy");
  progress.samples_per_second = get_number(json, "samplesPerSecond").value_or(0);
  progress.seconds_left = get_number(json, "secondsLeft");
  progress.world_size = get_count(json, "worldSize");
  progress.scaling_efficiency = get_number(json, "scalingEfficiency");
  progress.time = get_text(json, "time");
  return progress;
}

Json to_json(const CheckpointStatus& checkpoint) {
  return {{"step", checkpoint.step},
          {"time", checkpoint.time},
          {"path", checkpoint.path},
          {"bytes", checkpoint.bytes}};
}

std::optional<CheckpointStatus> read_checkpoint(const Json& json) {
  if (json.empty()) return std::nullopt;
  return CheckpointStatus{get_integer(json, "step").value_or(0), get_text(json, "time"),
                          get_text(json, "path"), get_integer(json, "bytes").value_or(0)};
}

Json to_json(const Condition& condition) {
  return {{"type", condition.type},
          {"status", condition.status ? "True" : "False"},
          {"reason", condition.reason},
          {"message", condition.message},
          {"lastTransitionTime", to_text(condition.last_transition_time)},
          {"observedGeneration", condition.observed_generation}};
}

Condition read_condition(const Json& json) {
  return {get_text(json, "type"),
          get_text(json, "status") == "True",
          get_text(json, "reason"),
          get_text(json, "message"),
          get_time(json, "lastTransitionTime").value_or(Time{}),
          get_count(json, "observedGeneration")};
}

}  // namespace

std::string to_text(Time time) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(time)));
}

std::optional<Time> parse_time(std::string_view text) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, read = 0;
  const std::string copy(text.substr(0, 40));
  if (std::sscanf(copy.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d%n", &year, &month, &day, &hour, &minute,
                  &second, &read) != 6)
    return std::nullopt;
  if (!copy.ends_with('Z') || (copy[read] != 'Z' && copy[read] != '.')) return std::nullopt;
  using namespace std::chrono;
  const year_month_day date{std::chrono::year(year), std::chrono::month(month),
                            std::chrono::day(day)};
  if (!date.ok() || hour > 23 || minute > 59 || second > 60) return std::nullopt;
  return Time(sys_days(date)) + hours(hour) + minutes(minute) + seconds(second);
}

Json to_json(const Status& status) {
  Json json = {{"attempt", status.attempt},
               {"workers", status.workers},
               {"restarts", to_json(status.restarts)},
               {"observedGeneration", status.observed_generation}};
  put(json, "phase", to_text(status.phase));
  if (status.host_port > 0) json["hostPort"] = status.host_port;
  put(json, "image", status.image);
  put(json, "keysSecret", status.keys_secret);
  if (status.backoff_step > 0) json["backoffStep"] = status.backoff_step;
  put(json, "attemptStartTime", status.attempt_start_time);
  put(json, "nextRetryTime", status.next_retry_time);
  put(json, "succeededRanks", status.succeeded_ranks);
  if (status.pod_group != GangScheduler::kNone)
    json["podGroup"] = word(kGangSchedulers, status.pod_group);
  if (status.last_failure) json["lastFailure"] = to_json(*status.last_failure);
  // Another column's: "1/2".
  if (const auto workers = status.replicas.find(Role::kWorker); workers != status.replicas.end())
    json["ready"] = fmt::format("{}/{}", workers->second.ready, workers->second.desired);
  for (const auto& [role, replicas] : status.replicas)
    json["replicaStatuses"][std::string(word(kRoles, role))] = to_json(replicas);
  if (status.progress) json["progress"] = to_json(*status.progress);
  if (status.checkpoint) json["checkpoint"] = to_json(*status.checkpoint);
  for (const Condition& condition : status.conditions)
    json["conditions"].push_back(to_json(condition));
  put(json, "startTime", status.start_time);
  put(json, "completionTime", status.completion_time);
  put(json, "selector", status.selector);
  return json;
}

Status read_status(const Json& json) {
  Status status;
  if (!json.is_object()) return status;
  status.phase = value_of(kPhases, get_text(json, "phase")).value_or(Phase::kNone);
  status.attempt = get_count(json, "attempt");
  status.workers = get_workers(json);
  const int host_port = get_count(json, "hostPort");
  status.host_port = host_port <= kLastHostPort ? host_port : 0;
  status.image = get_text(json, "image");
  status.keys_secret = get_text(json, "keysSecret");
  status.restarts = read_restarts(get_object(json, "restarts"));
  status.backoff_step = get_count(json, "backoffStep");
  status.attempt_start_time = get_time(json, "attemptStartTime");
  status.next_retry_time = get_time(json, "nextRetryTime");
  status.succeeded_ranks = get_text(json, "succeededRanks");
  status.pod_group =
      value_of(kGangSchedulers, get_text(json, "podGroup")).value_or(GangScheduler::kNone);
  status.last_failure = read_failure(get_object(json, "lastFailure"));
  const Json& replicas = get_object(json, "replicaStatuses");
  for (const auto& [role, text] : kRoles)
    if (replicas.contains(std::string(text)))
      status.replicas[role] = read_replicas(get_object(replicas, text.data()));
  status.progress = read_progress(get_object(json, "progress"));
  status.checkpoint = read_checkpoint(get_object(json, "checkpoint"));
  const auto conditions = json.find("conditions");
  if (conditions != json.end() && conditions->is_array())
    for (const Json& condition : *conditions)
      if (condition.is_object()) status.conditions.push_back(read_condition(condition));
  status.start_time = get_time(json, "startTime");
  status.completion_time = get_time(json, "completionTime");
  status.observed_generation = get_count(json, "observedGeneration");
  status.selector = get_text(json, "selector");
  return status;
}

}  // namespace coxswain::job
