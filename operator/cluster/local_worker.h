#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "operator/job/observed.h"
#include "trainer/contract/worker/announced_ranks.h"
#include "trainer/contract/worker/child_process.h"
#include "trainer/contract/worker/constants.h"
#include "trainer/contract/worker/termination_message.h"

namespace coxswain::cluster {

std::string uid_of(const job::WorkerId& id);

struct LocalWorkerOptions {
  job::WorkerId id;
  std::filesystem::path directory;  // the worker's own (contract/worker/run_files.h)
  int slots = 1;
  std::string node = "localhost";  // another: its child starts the ranks on that host
  bool supervises = true;          // its ranks announce themselves; a foreign command's don't
};

// Resource. One worker as processes: its own child (worker 0 of MPI, every worker of Env), or only
// ranks that worker 0's mpirun started (workers >= 1 of MPI). It ends when all of these have.
class LocalWorker {
 public:
  using Clock = std::chrono::steady_clock;

  LocalWorker(const LocalWorkerOptions& options, std::optional<contract::ChildProcess> child);

  const job::WorkerId& id() const { return id_; }
  const std::string& node() const { return node_; }
  bool has_child() const { return child_.has_value(); }
  std::string uid() const { return uid_of(id_); }

  // Looks at the processes, and kills those whose grace is over. `launch_over`: no mpirun can give
  // it ranks, or is still ending those of others. A worker without a child tells its end then, so
  // that the first cause is seen together with what it led to; or after 15 s.
  job::Worker observe(job::Time now, bool launch_over);

  void ask_to_leave(job::Time now, job::Seconds grace);  // save and stop, as a pod on SIGTERM
  void kill();

  bool leaving() const { return kill_time_.has_value(); }
  bool has_ended() const { return exit_code_.has_value(); }  // as of the last observe()
  bool has_lost_host() const { return exit_code_ == contract::kHostLost && node_ != "localhost"; }
  // Readable when observe() has news; as of the last one, so that no end is missed.
  const std::vector<int>& descriptors() const { return watched_; }
  std::optional<Clock::time_point> look_again() const;  // for what no descriptor tells

 private:
  void watch();
  bool processes_ended() const;
  void find_end(job::Time now, bool launch_over);

  job::WorkerId id_;
  std::string node_;
  std::filesystem::path directory_;
  bool supervises_;
  std::optional<contract::ChildProcess> child_;
  contract::AnnouncedRanks ranks_;
  std::vector<int> watched_;
  std::optional<Clock::time_point> kill_time_;
  std::optional<Clock::time_point> tell_time_;  // of an end that waits for the launch's
  std::optional<job::Time> deletion_time_;
  std::optional<job::Time> finished_time_;
  std::optional<int> exit_code_;
  std::optional<contract::TerminationMessage> termination_message_;
};

}  // namespace coxswain::cluster
