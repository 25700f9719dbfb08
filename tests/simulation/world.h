#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "operator/job/observed.h"
#include "operator/job/plan.h"
#include "operator/job/training_job.h"
#include "tests/simulation/random.h"

namespace coxswain::test {

// How often each thing happens, in percent a step; each seed draws its own mixture.
struct Faults {
  int worker_fails = 0;
  int pod_vanishes = 0;
  int pod_disrupted = 0;
  int node_lost = 0;  // its pods never end when they are told to
  int user_deletes = 0;
  int suspend_toggled = 0;
  int resized = 0;
  int call_dropped = 0;  // half of these have their effect all the same
  int view_stale = 0;
  int zombie_wakes = 0;
  int leader_changes = 0;
};

struct Pod {
  job::Worker seen;
  bool node_lost = false;
  bool late = false;  // made by a reconciler that was no leader any more: fenced by its attempt
};

// One job, its pods and the clock: the truth, which reconcilers see late.
class World {
 public:
  World(job::TrainingJob first, std::uint64_t seed) : job(std::move(first)), random(seed) {}

  job::TrainingJob job;               // as stored; resourceVersion counts the writes
  const void* last_writer = nullptr;  // of the status
  bool job_deleted = false;
  std::map<std::string, Pod> pods;  // by name, which the API server keeps unique
  static constexpr job::Time kBegin{job::Seconds(1'000'000'000)};
  job::Time now = kBegin;
  Random random;
  Faults faults;
  bool rank_zero_may_finish = false;
  bool trace = false;

  // What happened to the attempts, for the laws.
  std::set<std::pair<int, int>> succeeded;  // attempt, worker index
  std::set<int> disturbed;                  // attempts that the cluster or a user touched
  std::set<int> peers_missing;              // attempts in which a worker ended with 69
  std::map<int, job::Time> told_to_leave;   // attempts whose workers were deleted by an operator
  std::set<job::WorkerId> made;             // by an operator that led
  std::set<std::string> lost;               // pods that went wrong, by uid
  bool knows_losses = true;

  // Time passes for pods and users, with the present faults.
  void step();

  job::Observed observe() const;  // all there is to see
  std::int64_t seconds() const { return (now - kBegin).count(); }

  // The API server's part.
  void store_status(const job::Status& status, const void* writer);
  void change_spec();
  bool create(const job::WorkerId& id, bool late);  // false: the name is taken
  void remove(const job::DeleteWorker& action);

 private:
  void live(const std::string& name, Pod& pod, std::vector<std::string>& gone);
  void end(Pod& pod, int exit_code);
  void disturb(const job::Worker& worker);
  void fail_at_random(Pod& pod);
  void user_acts();

  int next_uid_ = 0;
};

bool is_alive(const Pod& pod);

}  // namespace coxswain::test
