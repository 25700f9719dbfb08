#include "trainer/launch/pod_worker.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>

#include "trainer/contract/worker/announced_ranks.h"
#include "trainer/contract/worker/child_process.h"
#include "trainer/contract/worker/run_files.h"
#include "trainer/launch/hosts.h"
#include "trainer/launch/mpi_worker.h"
#include "trainer/launch/rank_report.h"
#include "trainer/launch/ssh_files.h"

namespace coxswain::launch {

namespace {

using contract::TerminationMessage;
using contract::WorkerEnv;
using std::chrono::milliseconds;

constexpr const char* kSshd = "/usr/sbin/sshd";  // it must be called by its whole path
constexpr milliseconds kPodRanksEvery{50};       // for ranks that announce themselves
constexpr milliseconds kPodTurn{1'000};
// From a container's start until its pod's name is known. Asked sooner, a name server remembers for
// 5 to 30 s that there is no such name.
constexpr milliseconds kNamesTake{1'500};
constexpr milliseconds kLeastPatience{10'000};

// Leaves what sshd, ssh and whoever comes need.
SshSettings write_files(const WorkerEnv& env, const WorkerOptions& options) {
  SshSettings settings;
  settings.trainer = options.trainer;
  settings.attempt = env.attempt;
  settings.port = env.ssh_port;
  contract::save_environment(settings.directory, contract::whole_environment());
  contract::write_whole_file(sshd_config_file(settings.directory), sshd_config(settings));
  contract::write_whole_file(ssh_config_file(settings.directory), ssh_config(settings));
  return settings;
}

contract::ChildProcess start_sshd(const SshSettings& settings) {
  return contract::ChildProcess(
      {.command = {kSshd, "-D", "-e", "-f", sshd_config_file(settings.directory)},
       .environment = {}});
}

TerminationMessage stopped_before_start() {
  TerminationMessage end;
  end.exit_code = static_cast<int>(ExitCode::kSaved);
  end.phase = "Start";
  end.reason = "Stopped";
  end.message = "told to stop before the ranks were started";
  return end;
}

void check(contract::ChildProcess& sshd) {
  if (const auto end = sshd.end())
    throw Error(
        ExitCode::kInternal,
        fmt::format("[launch] sshd ended with code {}: its reason stands above", end->code));
}

// ssh and sshd know nobody without a name.
void check_user() {
  if (getpwuid(geteuid()) != nullptr) return;
  throw Error(
      ExitCode::kBadInput,
      fmt::format("[launch] this image has no passwd entry for the user {}, and SSH needs one: "
                  "run as {}, or add one",
                  geteuid(), contract::kUserId));
}

// A worker whose ranks are started by mpirun on worker 0.
class ServingWorker {
 public:
  ServingWorker(const WorkerEnv& env, contract::ChildProcess& sshd, contract::SignalQueue& signals)
      : sshd_(sshd), signals_(signals), own_({contract::worker_directory(env)}, env.slots) {}

  TerminationMessage wait() {
    for (;;) {
      own_.look();
      const std::vector<int> running = own_.descriptors();
      const std::vector<RankReport> reports = reports_of(own_);
      while (const auto signal = signals_.next()) asked_ = asked_ || *signal == SIGTERM;
      if (asked_) own_.signal_once(SIGUSR1);
      // The others can't go on without it. Not told, they would wait for it until they notice.
      const bool one_failed = std::ranges::any_of(reports, failed);
      if (one_failed && !asked_) own_.signal_once(SIGTERM);
      if (running.empty() && (one_failed || asked_ || all_saved(reports))) {
        if (!one_failed) let_mpirun_end();
        return end(reports);
      }
      check(sshd_);
      wait_for_news(running);
      contract::collect_orphans({sshd_.pid()});
    }
  }

 private:
  bool all_saved(const std::vector<RankReport>& reports) const {
    constexpr int kSaved = static_cast<int>(ExitCode::kSaved);
    return own_.complete() && std::ranges::all_of(reports, [](const RankReport& report) {
             return report.code == kSaved;
           });
  }

  static TerminationMessage end(const std::vector<RankReport>& reports) {
    return reports.empty() ? stopped_before_start() : combine(reports);
  }

  // mpirun takes the loss of its daemon here for a failure, and ends the ranks elsewhere: rank 0
  // may still write its checkpoint, for as long as whoever told us to stop lets it.
  void let_mpirun_end() {
    sshd_.signal(SIGTERM);
    while (!sshd_.end()) contract::wait_readable({sshd_.descriptor()}, kPodTurn);
    while (contract::collect_orphans({})) contract::wait_readable({}, kPodRanksEvery);
  }

  void wait_for_news(std::vector<int> descriptors) {
    descriptors.insert(descriptors.end(), {signals_.descriptor(), sshd_.descriptor()});
    contract::wait_readable(descriptors, own_.complete() ? kPodTurn : kPodRanksEvery);
  }

  contract::ChildProcess& sshd_;
  contract::SignalQueue& signals_;
  contract::AnnouncedRanks own_;
  bool asked_ = false;  // to save and stop
};

}  // namespace

TerminationMessage run_pod_worker(const WorkerEnv& env, const WorkerOptions& options) {
  contract::SignalQueue signals({SIGTERM, SIGINT});
  contract::adopt_orphans();
  check_user();
  const SshSettings settings = write_files(env, options);
  contract::ChildProcess sshd = start_sshd(settings);
  if (env.index > 0) return ServingWorker(env, sshd, signals).wait();

  const auto config = ssh_config_file(settings.directory);
  // Before the job's own deadline, so that the reason is told.
  const milliseconds share = std::chrono::seconds(env.startup_seconds) * 3 / 4;
  const HostPatience patience{.deadline = std::max(share, kLeastPatience),
                              .first_after = kNamesTake};
  const auto hosts = read_hostfile(env.hostfile, env.world_size / env.slots);
  if (!wait_for_hosts(hosts, config, patience, signals, [&] { check(sshd); }))
    return stopped_before_start();
  return launch_from_pod(env, options, config, signals);
}

}  // namespace coxswain::launch
