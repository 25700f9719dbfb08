#include "tests/simulation/world.h"

#include <array>

#include "operator/job/roles.h"
#include "operator/job/gang_view.h"

namespace coxswain::test {

using job::Role;
using job::Seconds;
using job::WorkerPhase;

bool is_alive(const Pod& pod) { return !job::has_ended(pod.seen); }

job::Observed World::observe() const {
  job::Observed observed;
  observed.now = now;
  observed.keys_secret = "keys";
  for (const auto& [name, pod] : pods) observed.workers.push_back(pod.seen);
  return observed;
}

void World::store_status(const job::Status& status, const void* writer) {
  last_writer = writer;
  job.status = status;
  job.metadata.resource_version = std::to_string(std::stoi(job.metadata.resource_version) + 1);
}

void World::change_spec() {
  ++job.metadata.generation;
  job.metadata.resource_version = std::to_string(std::stoi(job.metadata.resource_version) + 1);
}

bool World::create(const job::WorkerId& id, bool late) {
  const std::string name = job::worker_name(job, id.role, id.index);
  if (pods.contains(name)) return false;
  Pod pod;
  pod.seen.id = id;
  pod.seen.uid = std::to_string(++next_uid_);
  pod.late = late;
  if (!late) made.insert(id);
  pods.emplace(name, std::move(pod));
  return true;
}

void World::remove(const job::DeleteWorker& action) {
  const auto found = pods.find(job::worker_name(job, action.id.role, action.id.index));
  if (found == pods.end() || found->second.seen.uid != action.uid) return;
  told_to_leave.emplace(action.id.attempt, now);
  if (action.force) {
    pods.erase(found);
  } else if (!found->second.seen.deletion_time) {
    found->second.seen.deletion_time = now + action.grace;
  }
}

void World::end(Pod& pod, int exit_code) {
  job::Worker& worker = pod.seen;
  worker.phase = exit_code == 0 ? WorkerPhase::kSucceeded : WorkerPhase::kFailed;
  worker.exit_code = exit_code;
  worker.ready = false;
  worker.finished_time = now;
  if (exit_code == 0) succeeded.emplace(worker.id.attempt, worker.id.index);
  if (exit_code != 0) lost.insert(worker.uid);
  if (exit_code == 69) peers_missing.insert(worker.id.attempt);
}

void World::disturb(const job::Worker& worker) {
  disturbed.insert(worker.id.attempt);
  lost.insert(worker.uid);
}

void World::fail_at_random(Pod& pod) {
  constexpr auto kCodes =
      std::to_array<int>({1, 2, 65, 69, 70, 71, 72, 74, 75, 76, 126, 127, 134, 137, 139, 143, 255});
  // Codes that end the job at once are rarer, so that jobs live long enough.
  int code = kCodes[static_cast<std::size_t>(random.below(static_cast<int>(kCodes.size())))];
  if ((code == 2 || code == 65 || code == 76) && !random.chance(10)) code = 137;
  end(pod, code);
  pod.seen.reason = random.chance(20) ? "OOMKilled" : "Error";
  if (!random.chance(70)) return;
  pod.seen.termination_message.emplace();
  pod.seen.termination_message->exit_code = code;
  pod.seen.termination_message->reason = "Said";
  if (code == 72) disturb(pod.seen);  // its machine did it
}

void World::live(const std::string& name, Pod& pod, std::vector<std::string>& gone) {
  job::Worker& worker = pod.seen;
  if (random.chance(faults.pod_vanishes)) {
    disturb(worker);
    gone.push_back(name);
    return;
  }
  if (worker.deletion_time) {
    if (pod.node_lost) return;
    if (is_alive(pod) && random.chance(50)) end(pod, random.chance(50) ? 75 : 143);
    if (!is_alive(pod) || now >= *worker.deletion_time) gone.push_back(name);
    return;
  }
  if (!is_alive(pod)) return;
  if (!worker.scheduled) {
    worker.scheduled = random.chance(60);
  } else if (!worker.ready) {
    worker.ready = random.chance(60);
    if (worker.ready) worker.phase = WorkerPhase::kRunning;
  } else if (rank_zero_may_finish && random.chance(20) &&
             !job::serves(job.spec, worker.id.role, worker.id.index)) {
    end(pod, 0);
  }
  if (is_alive(pod) && worker.scheduled && random.chance(faults.worker_fails)) fail_at_random(pod);
  if (random.chance(faults.node_lost)) {
    disturb(worker);
    pod.node_lost = true;
  }
  if (is_alive(pod) && random.chance(faults.pod_disrupted)) {
    disturb(worker);
    worker.disruption = random.chance(50) ? "PreemptionByScheduler" : "DeletionByTaintManager";
    worker.deletion_time = now + Seconds(30);
  }
  if (random.chance(faults.user_deletes)) {
    disturb(worker);
    worker.deletion_time = now + Seconds(30);
  }
}

void World::user_acts() {
  if (random.chance(faults.suspend_toggled)) {
    job.spec.run_policy.suspend = !job.spec.run_policy.suspend;
    change_spec();
  }
  if (job.spec.elastic && random.chance(faults.resized)) {
    job.spec.worker.replicas =
        random.between(*job.spec.elastic->min_replicas, *job.spec.elastic->max_replicas);
    change_spec();
  }
}

void World::step() {
  now += Seconds(random.between(1, 15));
  std::vector<std::string> gone;
  for (auto& [name, pod] : pods) live(name, pod, gone);
  for (const std::string& name : gone) pods.erase(name);
  user_acts();
}

}  // namespace coxswain::test
