#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "operator/job/observed.h"
#include "operator/job/training_job.h"

namespace coxswain::cluster {

using SteadyTime = std::chrono::steady_clock::time_point;

// Actions of one kind that fail without being refused: until they succeed, or nobody has tried them
// for a while.
struct Trouble {
  std::size_t kind = 0;  // of the action
  int times = 0;         // in a row
  job::Rejection words;
  SteadyTime until;
};
inline constexpr int kTroubleTold = 2;  // times in a row; one is no news

// Value. What is remembered of a job between passes. It saves work; right and wrong don't depend on
// it, but for `stale`.
struct JobMemory {
  std::string uid;
  bool stale = false;         // the store may be behind what is stored: read at the source
  std::uint64_t written = 0;  // the newest version that we wrote
  std::map<std::string, job::Worker> failed;  // by uid; of this attempt and the one before
  std::map<std::string, SteadyTime> leaving;  // by uid: when it was first seen to leave
  std::string keys_secret;                    // that was made,
  bool keys_are_new = false;                  // and not asked for since
  std::optional<job::Rejection> rejection;
  int rejected_generation = 0;
  std::optional<job::Predecessor> predecessor;
  std::optional<Trouble> trouble;
  SteadyTime retry_at;  // creates rest until then
};

std::string key_of(const job::TrainingJob& job);  // "NS/NAME"

// Resource. The memories of all jobs. Thread-safe.
class KubeMemory {
 public:
  JobMemory recall(const job::TrainingJob& job);
  void change(const job::TrainingJob& job, const std::function<void(JobMemory&)>& edit);

  bool is_stale(const std::string& key);
  void refreshed(const std::string& key);  // read at its source
  void forget(const std::string& key);
  // One that failed may be gone at the next look.
  void failed(const std::string& key, const std::string& job_uid, const job::Worker& worker);

 private:
  std::mutex mutex_;
  std::map<std::string, JobMemory> memories_;  // by NS/NAME; guarded by mutex_
};

}  // namespace coxswain::cluster
