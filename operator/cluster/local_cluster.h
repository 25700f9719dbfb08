#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "operator/cluster/cluster.h"
#include "operator/cluster/host_pool.h"
#include "operator/cluster/kill_point.h"
#include "operator/cluster/local_volumes.h"
#include "operator/cluster/local_worker.h"
#include "operator/job/worker_spec.h"

namespace coxswain::cluster {

struct LocalOptions {
  std::filesystem::path run_dir;  // exists; the processes of all attempts know of each other here
  std::filesystem::path trainer;  // the program coxswain-trainer
  LocalVolumes volumes;
  std::filesystem::path bundled_digits;
  std::string log_format = "text";  // of the ranks
  int terminal_columns = 0;         // of our standard output; 0: it is no terminal
  std::vector<KillPoint> kill;
  HostPool* hosts = nullptr;  // of the workers; none: this machine alone

  // Told of each status as it is recorded.
  std::function<void(const job::Status& status, const std::vector<job::Event>& events)> recorded =
      [](const auto&, const auto&) {};
};

// What a machine without a cluster takes: Pod Security guards nothing here.
job::Installation local_installation();

// Resource. One job as processes of this machine; its status lives in memory.
//
// With launcher MPI worker 0 alone is a child: its mpirun starts the ranks of all workers. With Env
// every worker is a child, and every server. All of them die with this process, however it ends.
// With hosts a gang starts once there is a place for all of it; until then its workers wait, as
// pods without a node. For one thread.
class LocalCluster : public Cluster {
 public:
  LocalCluster(job::TrainingJob job, LocalOptions options);
  ~LocalCluster() override;

  job::Observed observe(const job::TrainingJob& job) override;
  bool record(const job::TrainingJob& job, const job::Status& status,
              const std::vector<job::Event>& events) override;
  void apply(const job::TrainingJob& job, std::span<const job::Action> actions) override;

  const job::TrainingJob& job() const { return job_; }  // with the recorded status
  void suspend() { job_.spec.run_policy.suspend = true; }
  void end_all();  // as a delete of every worker
  void kill_all();

  // How worker 0 ended last, and what it said then.
  const std::optional<job::Worker>& last_end() const { return last_end_; }

  // The hosts that a gang has waited for longer than it may start; empty: none.
  std::string missing_hosts() const;

  bool idle() const;                              // nothing runs, as of the last observe()
  std::vector<int> descriptors() const;           // readable when a pass may find news
  std::chrono::milliseconds look_within() const;  // a pass is due then, readable or not

 private:
  void create(const job::TrainingJob& job, const job::WorkerId& id);
  void start(const job::TrainingJob& job, const job::WorkerId& id, int place);
  void add_host(contract::ProcessOptions& process, bool is_worker, int place) const;
  void look_at_hosts();
  void start_those_who_wait();
  std::vector<int> places() const;  // of a gang's workers, as far as those that answer reach
  int place_of(const job::WorkerId& id) const;
  bool has_place(const job::WorkerId& id) const;
  job::Worker waiting(const job::WorkerId& id) const;
  std::string hostfile(const std::vector<std::string>& names) const;  // in rank order
  std::string server_addresses() const;
  void remove(const job::DeleteWorker& action);
  void write_files(const job::TrainingJob& job);
  contract::ProcessOptions process(const job::TrainingJob& job, const job::WorkerSpec& spec) const;
  std::filesystem::path attempt_directory(int attempt) const;
  job::Paths paths(int attempt, int place = kHere) const;

  static constexpr int kHere = -1;  // a place that is no host of the pool

  job::TrainingJob job_;
  LocalOptions options_;
  std::list<LocalWorker> workers_;
  std::vector<job::WorkerId> waiting_;  // for a host
  std::optional<LocalWorker::Clock::time_point> waiting_since_;
  std::vector<int> placed_;  // the host of each of an attempt's workers
  int placed_attempt_ = -1;  // which
  std::string wrote_on_;     // the host where worker 0 ran
  std::optional<job::Worker> last_end_;
  int attempt_ = -1;    // whose files are written
  int first_port_ = 0;  // of its servers; then MXNet's scheduler's; then those of its workers
};

}  // namespace coxswain::cluster
