#include "operator/run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <random>

#include "operator/cluster/local_cluster.h"
#include "operator/inspect/story_file.h"
#include "operator/open_files.h"
#include "operator/reconciler.h"
#include "operator/run_output.h"
#include "trainer/contract/error.h"
#include "trainer/contract/worker/run_files.h"
#include "trainer/contract/worker/temporary_directory.h"

namespace coxswain {

namespace {

using cluster::LocalCluster;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// Signals so close to each other are one: a terminal and `timeout` send theirs to a whole group,
// and to each of it.
constexpr milliseconds kOneWish{300};

// The directory in which the processes of a run know of each other: of one run at a time.
class RunDirectory {
 public:
  RunDirectory(const std::filesystem::path& given, const std::string& job_name) {
    if (!given.empty()) {
      std::error_code error;
      std::filesystem::create_directories(given, error);
      if (error || !std::filesystem::is_directory(given))
        throw Error(ExitCode::kVolume,
                    fmt::format("[run] --run-dir {}: {}", given.string(),
                                error ? error.message() : "something else is there"));
      path_ = std::filesystem::absolute(given);
      lock();
      return;
    }
    path_ = temporary_.emplace("coxswain-" + job_name).path();
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  // Some network file systems lock no directories: there nobody is kept out.
  void lock() {
    lock_ = contract::FileDescriptor(open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (flock(lock_.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
    throw Error(ExitCode::kBadInput,
                fmt::format("[run] --run-dir {}: another run is under way there: wait for its end, "
                            "or give another directory",
                            path_.string()));
  }

  std::filesystem::path path_;
  std::optional<contract::TemporaryDirectory> temporary_;
  contract::FileDescriptor lock_;
};

int terminal_columns() {
  winsize size{};
  if (isatty(STDOUT_FILENO) == 0) return 0;
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

void print(std::FILE* stream, const std::string& text) {
  if (text.empty()) return;
  // Over the progress line, which has no end of line.
  if (isatty(fileno(stream)) != 0) std::fputs("\r\x1b[K", stream);
  std::fputs(text.c_str(), stream);
  std::fflush(stream);
}

// One job from its start to its end.
class Run {
 public:
  Run(LocalCluster& cluster, contract::SignalQueue& signals)
      : cluster_(cluster), reconciler_(cluster), signals_(signals) {}

  RunResult wait() {
    for (;;) {
      const auto again = reconciler_.reconcile(cluster_.job());
      if (is_over() && cluster_.idle()) return result();
      if (const auto missing = cluster_.missing_hosts(); !missing.empty())
        throw Error(ExitCode::kPeersMissing,
                    fmt::format("[hosts] the ranks have waited for {} s: {}",
                                cluster_.job().spec.run_policy.startup_deadline.count(), missing));
      if (job::is_terminal(cluster_.job().status)) cluster_.end_all();
      wait_for_news(again);
      while (const auto signal = signals_.next()) stop(*signal);
    }
  }

  int killed_by() const { return killed_by_; }

 private:
  // Nobody is there to resume a suspended job, whether it came so or was asked to stop.
  bool is_over() const {
    const job::TrainingJob& job = cluster_.job();
    const bool suspended = job.spec.run_policy.suspend && job.status.workers == 0;
    return job::is_terminal(job.status) || suspended;
  }

  void wait_for_news(std::optional<job::Seconds> again) const {
    auto timeout = cluster_.look_within();
    if (again) timeout = std::min<milliseconds>(timeout, *again);
    std::vector<int> descriptors = cluster_.descriptors();
    descriptors.push_back(signals_.descriptor());
    contract::wait_readable(descriptors, timeout);
  }

  void stop(int signal) {
    if (!asked_) {
      asked_ = Clock::now();
      return cluster_.suspend();
    }
    if (Clock::now() < *asked_ + kOneWish) return;
    killed_by_ = signal;
    cluster_.kill_all();
  }

  RunResult result() const {
    if (cluster_.job().status.phase == job::Phase::kSucceeded) return RunResult::kSucceeded;
    if (job::is_terminal(cluster_.job().status) || killed_by_ != 0) return RunResult::kFailed;
    // Stopped on request, but what was killed at the end of its grace has not saved.
    const auto& end = cluster_.last_end();
    const bool saved = !end || end->exit_code == static_cast<int>(ExitCode::kSaved) ||
                       end->exit_code == static_cast<int>(ExitCode::kDone);
    return saved ? RunResult::kSaved : RunResult::kFailed;
  }

  LocalCluster& cluster_;
  Reconciler reconciler_;
  contract::SignalQueue& signals_;
  std::optional<Clock::time_point> asked_;
  int killed_by_ = 0;
};

// Keeps what `coxswain describe` tells, in the run's directory. Nothing of the run depends on it.
class StoryKeeper {
 public:
  StoryKeeper(std::filesystem::path directory, const job::TrainingJob& job)
      : file_(std::move(directory) / inspect::kStoryFile), story_{job, {}, getpid()} {
    story_.job.metadata.creation_time = now();
  }

  void add(const job::Status& status, const std::vector<job::Event>& events) {
    story_.job.status = status;
    for (const job::Event& event : events)
      story_.events.push_back({now(), status.attempt, event.warning, event.reason, event.message});
    const auto surplus = std::ssize(story_.events) - std::ptrdiff_t{inspect::kMostEvents};
    if (surplus > 0) story_.events.erase(story_.events.begin(), story_.events.begin() + surplus);
    try {
      contract::write_whole_file(file_, inspect::to_json(story_));
    } catch (const Error&) {  // a full disk: who trains says so where it matters
    }
  }

 private:
  static job::Time now() {
    return std::chrono::floor<job::Seconds>(std::chrono::system_clock::now());
  }

  std::filesystem::path file_;
  inspect::Story story_;
};

// Random, as the API server's are.
std::string new_uid() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

// A closed terminal is a wish to stop, unless nohup keeps it away.
std::vector<int> stopping_signals() {
  std::vector<int> signals = {SIGINT, SIGTERM};
  if (!contract::is_ignored(SIGHUP)) signals.push_back(SIGHUP);
  return signals;
}

int code_of(const Run& run, RunResult result, const LocalCluster& cluster) {
  const job::Status& status = cluster.job().status;
  if (run.killed_by() != 0) return 128 + run.killed_by();
  const bool stopped = !job::is_terminal(status) && result == RunResult::kFailed;
  if (stopped && cluster.last_end()) return cluster.last_end()->exit_code.value_or(0);
  return exit_code(result, status);
}

// The job as it runs on hosts: they need no MPI.
job::TrainingJob for_hosts(job::TrainingJob job, const std::vector<cluster::HostSlots>& hosts) {
  cluster::check_hosts(job, hosts);
  job.spec.launcher = job::Launcher::kEnv;
  return job;
}

// The program, carried to each of the hosts, which answer. Nothing: a signal came first.
std::unique_ptr<cluster::HostPool> open_hosts(const job::TrainingJob& job,
                                              const RunOptions& options,
                                              const cluster::LocalOptions& local,
                                              contract::SignalQueue& signals) {
  const auto tell = [](const std::string& line) { print(stderr, "coxswain: " + line + "\n"); };
  const auto package = cluster::make_package(
      local.trainer, job.spec.data_volume ? "" : local.bundled_digits, local.run_dir / "package");
  auto pool = std::make_unique<cluster::HostPool>(options.hosts, package, tell);
  return pool->wait_for_all(signals) ? std::move(pool) : nullptr;
}

}  // namespace

int run_job(const job::TrainingJob& job, const RunOptions& options) {
  if (options.hosts.empty())
    allow_open_files(job.spec.worker.replicas * job::slots_per_worker(job.spec));
  contract::SignalQueue signals(stopping_signals());
  const RunDirectory run_dir(options.run_dir, job.metadata.name);
  job::TrainingJob mapped = cluster::with_volumes(job, options.volumes);
  if (!options.hosts.empty()) mapped = for_hosts(std::move(mapped), options.hosts);
  mapped.metadata.uid = new_uid();  // each run is a job of its own
  cluster::LocalOptions local;
  local.run_dir = run_dir.path();
  local.trainer = options.program.parent_path() / "coxswain-trainer";
  local.volumes = options.hosts.empty() ? cluster::local_volumes(mapped, run_dir.path())
                                        : cluster::volumes_of_hosts(mapped);
  local.bundled_digits = cluster::bundled_digits(options.program);
  local.kill = options.kill;
  local.log_format = options.as_json ? "json" : "text";
  local.terminal_columns = options.as_json ? 0 : terminal_columns();
  StoryKeeper story(run_dir.path(), mapped);
  local.recorded = [&](const job::Status& status, const std::vector<job::Event>& events) {
    story.add(status, events);
    print(options.as_json ? stdout : stderr, render_events(events, status, options.as_json));
  };
  std::unique_ptr<cluster::HostPool> hosts;
  if (!options.hosts.empty()) {
    hosts = open_hosts(mapped, options, local, signals);
    if (!hosts) return static_cast<int>(ExitCode::kSaved);
    local.hosts = hosts.get();
  }
  LocalCluster cluster(mapped, local);
  Run run(cluster, signals);
  const RunResult result = run.wait();
  print(stdout, render_finished(result, cluster.job().status, cluster.last_end()));
  return code_of(run, result, cluster);
}

}  // namespace coxswain
