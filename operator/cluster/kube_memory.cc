#include "operator/cluster/kube_memory.h"

namespace coxswain::cluster {

std::string key_of(const job::TrainingJob& job) {
  return job.metadata.name_space + "/" + job.metadata.name;
}

JobMemory KubeMemory::recall(const job::TrainingJob& job) {
  JobMemory memory;
  change(job, [&](JobMemory& stored) { memory = stored; });
  return memory;
}

void KubeMemory::change(const job::TrainingJob& job, const std::function<void(JobMemory&)>& edit) {
  const std::lock_guard lock(mutex_);
  JobMemory& memory = memories_[key_of(job)];
  if (memory.uid != job.metadata.uid) memory = JobMemory{};
  memory.uid = job.metadata.uid;
  edit(memory);
}

bool KubeMemory::is_stale(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto memory = memories_.find(key);
  return memory != memories_.end() && memory->second.stale;
}

void KubeMemory::refreshed(const std::string& key) {
  const std::lock_guard lock(mutex_);
  memories_[key].stale = false;
}

void KubeMemory::forget(const std::string& key) {
  const std::lock_guard lock(mutex_);
  memories_.erase(key);
}

void KubeMemory::failed(const std::string& key, const std::string& job_uid,
                        const job::Worker& worker) {
  const std::lock_guard lock(mutex_);
  const auto memory = memories_.find(key);
  if (memory != memories_.end() && memory->second.uid == job_uid)
    memory->second.failed[worker.uid] = worker;
}

}  // namespace coxswain::cluster
