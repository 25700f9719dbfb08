#include "tests/simulation/history_laws.h"

#include <fmt/format.h>

#include <algorithm>

#include "operator/cluster/pod.h"
#include "operator/job/job_reader.h"
#include "operator/job/roles.h"
#include "operator/job/status.h"
#include "operator/job/worker_spec.h"

namespace coxswain::test {

namespace {

std::string text(const Json& object, const char* key) {
  return object.at("metadata").value(key, "");
}

int attempt_of(const Json& pod) {
  return std::stoi(pod.at("metadata").at("labels").at(cluster::kAttemptLabel).get<std::string>());
}

Json without_zeros(const Json& object) {
  Json left = Json::object();
  for (const auto& [key, value] : object.items()) {
    const Json inner = value.is_object() ? without_zeros(value) : value;
    if (inner != 0 && !(inner.is_object() && inner.empty())) left[key] = inner;
  }
  return left;
}

bool is_ours(const Json& pod) {
  const auto& metadata = pod.at("metadata");
  return metadata.contains("labels") && metadata.at("labels").contains(cluster::kAttemptLabel);
}

}  // namespace

void HistoryLaws::demand(bool law, const std::string& what) {
  if (!law && !breach_) breach_ = what;
}

std::optional<std::string> HistoryLaws::breach() const {
  if (breach_) return breach_;
  for (const auto& [uid, life] : lives_)
    if (life->laws.breach()) return life->laws.breach();
  return std::nullopt;
}

HistoryLaws::Life& HistoryLaws::life_of(const std::string& uid) {
  auto& life = lives_[uid];
  if (!life) life = std::make_unique<Life>(job::TrainingJob{});
  life->world.now = server_.now;
  life->world.knows_losses = false;
  return *life;
}

void HistoryLaws::disturbed(const Json& pod) {
  if (is_ours(pod)) life_of(controller_of(pod)).world.disturbed.insert(attempt_of(pod));
}

// What the pods themselves told up to now.
void HistoryLaws::hear_of_pods() {
  for (; heard_ < server_.history().size(); ++heard_) {
    const Revision& revision = server_.history()[heard_];
    if (revision.resource != "pods" || !is_ours(*revision.object)) continue;
    const auto worker = cluster::worker_of(*revision.object);
    if (!worker) continue;
    World& world = life_of(controller_of(*revision.object)).world;
    if (worker->phase == job::WorkerPhase::kSucceeded)
      world.succeeded.emplace(worker->id.attempt, worker->id.index);
    if (worker->exit_code == 69) world.peers_missing.insert(worker->id.attempt);
  }
}

Object HistoryLaws::job_with(const std::string& uid) const {
  for (const Object& job : server_.all("trainingjobs"))
    if (text(*job, "uid") == uid) return job;
  return nullptr;
}

void HistoryLaws::before_change(const std::string& resource, const Object& before,
                                const Object& after) {
  hear_of_pods();
  const Json& either = before ? *before : *after;
  std::string name = resource + "/" + text(either, "name");
  if (resource == "secrets") name.resize(name.size() - 16);  // which were drawn
  if (!before) {
    ++effects_["create " + name];
    before_create(resource, *after);
  } else if (resource == "trainingjobs" && after) {
    before_status(before, after);
  } else if (resource == "pods") {
    if (!is_terminating(*before)) ++effects_["delete " + name];
    const bool runs = is_living_pod(*before) && before->at("spec").contains("nodeName");
    if (!after && runs) ++effects_["force " + name];
    before_pod_leaves(*before, !after);
  } else if (resource == "trainingjobs") {
    ++effects_["delete " + name];
    const job::TrainingJob job = job::read_job(*before);
    const auto& ttl = job.spec.run_policy.ttl_after_finished;
    demand(job::is_terminal(job.status), "a job was deleted before its end");
    const job::Time now = server_.now + caller.skew;
    demand(ttl && job.status.completion_time && now >= *job.status.completion_time + *ttl,
           "a job was deleted before ttlSecondsAfterFinished");
  } else if (resource == "podgroups") {
    if (!after) ++effects_["delete " + name];
    before_pod_group(before, after);
  } else {
    demand(false, "an operator changed or deleted " + name);
  }
}

void HistoryLaws::before_status(const Object& before, const Object& after) {
  Life& life = life_of(text(*before, "uid"));
  life.world.job = job::read_job(*before);
  const job::Status next = job::read_status(after->at("status"));
  life.laws.before_record(next);
  // Nothing of an older status is left behind; counts of 0 may be left out.
  demand(without_zeros(job::to_json(next)) == without_zeros(after->at("status")),
         "the stored status is not what was meant: " + after->at("status").dump());
}

void HistoryLaws::before_create(const std::string& resource, const Json& object) {
  const std::string name = resource + "/" + text(object, "name");
  const std::string uid = controller_of(object);
  demand(!uid.empty(), name + " was made without an owner");
  const Object owner = job_with(uid);
  if (!owner) {
    // Only for who can't know it yet.
    if (caller.late) return;
    const auto known = caller.jobs->find(
        text(object, "namespace") + "/" +
        object.at("metadata").at("labels").at(cluster::kJobLabel).get<std::string>());
    demand(known && known->meta.uid == uid, name + " was made for a job that is known to be gone");
    return;
  }
  if (resource == "pods") before_pod(object, *owner);
}

void HistoryLaws::before_pod(const Json& pod, const Json& owner) {
  const std::string name = text(pod, "name");
  const auto worker = cluster::worker_of(pod);
  demand(worker.has_value(), name + " has no labels of ours");
  const std::string uid = controller_of(pod);
  if (caller.late) {
    late_pods_[uid + name] = true;
    return;
  }
  late_pods_.erase(uid + name);
  const job::TrainingJob job = job::read_job(owner);
  const job::Status& status = job.status;
  demand(!job::is_terminal(status), name + " was made after the end");
  demand(worker->id.attempt == status.attempt,
         fmt::format("{} was made for attempt {}, recorded is {}", name, worker->id.attempt,
                     status.attempt));
  demand(status.workers > 0, name + " was made while no gang is wanted");
  demand(!status.next_retry_time || server_.now + caller.skew >= *status.next_retry_time,
         name + " was made within the back-off");
  const auto gang = job::gang(job);
  demand(std::ranges::find(gang, worker->id) != gang.end(), name + " is not of the gang");
  for (const Object& other : server_.all("pods")) {
    if (controller_of(*other) != uid || !is_ours(*other) || !is_living_pod(*other)) continue;
    const auto there = cluster::worker_of(*other);
    demand(there->id.role != worker->id.role || there->id.index != worker->id.index,
           name + ": two of one rank are alive");
    demand(there->id.attempt == status.attempt || late_pods_.contains(uid + text(*other, "name")),
           name + ": two attempts are alive");
  }
  check_files(pod, job);
}

// Every pod of a gang reads the same hostfile, with one line a worker.
void HistoryLaws::check_files(const Json& pod, const job::TrainingJob& job) {
  const std::string name_space = text(pod, "namespace");
  std::string config_map;
  for (const Json& volume : pod.at("spec").at("volumes")) {
    if (!volume.contains("projected")) continue;
    for (const Json& source : volume.at("projected").at("sources")) {
      if (source.contains("configMap")) config_map = source.at("configMap").at("name");
      if (!source.contains("secret")) continue;
      const std::string secret = source.at("secret").at("name");
      const Object keys = server_.find("secrets", name_space + "/" + secret);
      demand(keys != nullptr, "a pod was made before its keys");
      demand(!keys || controller_of(*keys) == job.metadata.uid, "a pod got another's keys");
    }
  }
  const Object files = server_.find("configmaps", name_space + "/" + config_map);
  demand(files != nullptr, "a pod was made before its hostfile");
  if (!files) return;
  const std::string hosts = files->at("data").value("hostfile", "");
  demand(std::ranges::count(hosts, '\n') == job.status.workers,
         fmt::format("the hostfile of a gang of {}:\n{}", job.status.workers, hosts));
  demand(server_.find("services", name_space + "/" + job.metadata.name) != nullptr,
         "a pod was made before its service");
}

// It goes when its gang is wanted no more, and after the gang's last pod.
void HistoryLaws::before_pod_group(const Object& before, const Object& after) {
  const std::string uid = controller_of(*before);
  demand(!uid.empty(), "an operator changed or deleted a foreign pod group");
  const Object owner = job_with(uid);
  if (after || !owner) return;
  const job::Status status = job::read_job(*owner).status;
  demand(status.workers == 0 || job::is_terminal(status), "a wanted gang lost its pod group");
  for (const Object& pod : server_.all("pods"))
    demand(controller_of(*pod) != uid || !is_living_pod(*pod),
           text(*pod, "name") + " outlived its pod group");
}

void HistoryLaws::before_pod_leaves(const Json& pod, bool at_once) {
  const std::string name = text(pod, "name");
  const auto worker = is_ours(pod) ? cluster::worker_of(pod) : std::nullopt;
  demand(worker.has_value() && !controller_of(pod).empty(), name + " is not ours, and was deleted");
  const Object owner = job_with(controller_of(pod));
  if (!worker || !owner) return;
  const job::TrainingJob job = job::read_job(*owner);
  life_of(job.metadata.uid).world.told_to_leave.emplace(worker->id.attempt, server_.now);
  const auto gang = job::gang(job);
  const bool wanted = !job::is_terminal(job.status) && job.status.workers > 0 &&
                      std::ranges::find(gang, worker->id) != gang.end();
  demand(!wanted, name + ": a wanted worker was deleted");
  if (!at_once || !is_living_pod(pod) || !pod.at("spec").contains("nodeName")) return;
  demand(worker->deletion_time &&
             server_.now >= *worker->deletion_time + job.spec.run_policy.stuck_termination,
         name + " was taken away by force before it was stuck");
}

}  // namespace coxswain::test
