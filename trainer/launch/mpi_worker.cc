#include "trainer/launch/mpi_worker.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>

#include "trainer/contract/worker/announced_ranks.h"
#include "trainer/contract/worker/child_process.h"
#include "trainer/contract/worker/run_files.h"
#include "trainer/launch/error_filter.h"
#include "trainer/launch/mpirun.h"
#include "trainer/launch/rank_report.h"
#include "trainer/launch/shared_memory_directory.h"

namespace coxswain::launch {

namespace {

using contract::WorkerEnv;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kRanksEvery{20};       // for ranks that announce themselves
constexpr milliseconds kRankPatience{5'000};  // a rank ends itself 2 s after its launcher's end
constexpr milliseconds kMpirunPatience{500};  // after the end of all ranks
// After a failure here, for ranks elsewhere: as long as it gives them itself, and a little.
constexpr milliseconds kPodMpirunPatience{4'000};

void write_to_stderr(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // nobody reads any more: the ranks go on without
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::vector<std::filesystem::path> worker_directories(WorkerEnv env) {
  std::vector<std::filesystem::path> directories;
  for (env.index = 0; env.index < env.world_size / env.slots; ++env.index) {
    directories.push_back(contract::worker_directory(env));
  }
  return directories;
}

// Value. What runs below mpirun, as far as it can be seen from here.
struct World {
  contract::AnnouncedRanks own;  // of this worker
  contract::AnnouncedRanks all;  // whose ends can be seen
  bool whole = false;            // `all` is every rank there is
  milliseconds mpirun_patience;  // after the end of all that can be seen
};

// mpirun, its error output and the ranks below it, until nothing of them runs any more.
class MpiRun {
 public:
  MpiRun(const MpirunCall& call, World world, contract::SignalQueue& signals)
      : signals_(signals),
        own_(std::move(world.own)),
        all_(std::move(world.all)),
        whole_world_(world.whole),
        patience_(world.mpirun_patience),
        errors_(contract::make_pipe()),
        mpirun_({.command = call.command,
                 .environment = call.environment,
                 .death_signal = SIGKILL,
                 .stdout_fd = -1,
                 .stderr_fd = errors_.in.get()}) {
    errors_.in.close();
  }

  void wait() {
    std::optional<Clock::time_point> mpirun_deadline;
    while (!mpirun_.end()) {
      own_.look();
      all_.look();
      const std::vector<int> running = all_.descriptors();
      // Looked for before the signals: a stop that was asked for because a rank failed comes after
      // its failure, and must not give the others time to save what they can't.
      const bool failed = one_failed();
      abandoned_ = abandoned_ || (failed && !asked_);
      while (const auto signal = signals_.next()) asked_ = asked_ || *signal == SIGTERM;
      if (asked_) own_.signal_once(SIGUSR1);
      if (abandoned_) all_.signal_once(SIGTERM);
      if (running.empty() && ((whole_world_ && all_.complete()) || failed)) {
        // It now leaves by itself, or sits out its own grace period for nobody.
        if (!mpirun_deadline) mpirun_deadline = Clock::now() + patience_;
        if (Clock::now() >= *mpirun_deadline) kill_mpirun();
      }
      wait_for_news(running, mpirun_deadline);
      pass_on_errors();
    }
    all_.wait_or_kill(kRankPatience);
    own_.look();
    pass_on_errors();
    write_to_stderr(filter_.finish());
  }

  contract::TerminationMessage end() {
    contract::TerminationMessage result = combine(reports_of(own_));
    const contract::ProcessEnd mpirun_end = mpirun_.end().value_or(contract::ProcessEnd{});
    const bool cause_known = result.exit_code != 0 && result.reason != "PeerLost";
    if (mpirun_end.code == 0 || mpirun_killed_ || cause_known) return result;
    if (mpirun_end.signal != 0) {
      return mpirun_failed(result, mpirun_end.code, "Signal",
                           fmt::format("mpirun was killed by signal {}", mpirun_end.signal));
    }
    if (result.exit_code == 0 && !own_.ranks().empty())
      return mpirun_failed(result, static_cast<int>(ExitCode::kPeerLost), "PeerLost",
                           "a rank of another worker failed");
    if (!own_.ranks().empty()) return result;
    return mpirun_failed(result, static_cast<int>(ExitCode::kInternal), "LaunchFailed",
                         fmt::format("mpirun could not start the ranks (code {}): {}",
                                     mpirun_end.code, filter_.complaint()));
  }

 private:
  void wait_for_news(std::vector<int> descriptors, std::optional<Clock::time_point> deadline) {
    descriptors.insert(descriptors.end(),
                       {signals_.descriptor(), mpirun_.descriptor(), errors_.out.get()});
    milliseconds timeout = all_.complete() ? milliseconds(60'000) : kRanksEvery;
    if (deadline) timeout = std::chrono::ceil<milliseconds>(*deadline - Clock::now());
    contract::wait_readable(descriptors, timeout);
  }

  void pass_on_errors() {
    std::array<char, 4096> buffer;
    while (errors_.out.get() >= 0) {
      const ssize_t size = read(errors_.out.get(), buffer.data(), buffer.size());
      if (size < 0) return;
      if (size == 0) return errors_.out.close();
      write_to_stderr(
          filter_.take({buffer.data(), static_cast<std::size_t>(size)}, !own_.ranks().empty()));
    }
  }

  // Of those that have ended.
  bool one_failed() const { return std::ranges::any_of(reports_of(all_), failed); }

  void kill_mpirun() {
    mpirun_killed_ = true;
    mpirun_.signal_group(SIGKILL);
  }

  static contract::TerminationMessage mpirun_failed(contract::TerminationMessage seen, int code,
                                                    std::string reason, std::string message) {
    seen.exit_code = code;
    seen.rank = -1;
    seen.phase = "Launch";
    seen.reason = std::move(reason);
    seen.message = std::move(message);
    write_to_stderr("[launch] " + seen.message + "\n");
    return seen;
  }

  contract::SignalQueue& signals_;
  contract::AnnouncedRanks own_;
  contract::AnnouncedRanks all_;
  bool whole_world_;
  milliseconds patience_;
  contract::Pipe errors_;
  contract::ChildProcess mpirun_;
  ErrorFilter filter_;
  bool asked_ = false;          // to save and stop
  bool abandoned_ = false;      // a rank failed: the others leave now, not when mpirun tells them
  bool mpirun_killed_ = false;  // by us
};

}  // namespace

contract::TerminationMessage run_mpi_worker(const WorkerEnv& env, const WorkerOptions& options) {
  contract::SignalQueue signals({SIGTERM, SIGINT});
  const std::filesystem::path usual = "/dev/shm";
  const SharedMemoryDirectory shared_memory(
      {usual, env.run_dir}, static_cast<std::uint64_t>(env.world_size) * kSegmentBytes);
  if (const std::filesystem::path& at = shared_memory.path(); at.parent_path() != usual)
    write_to_stderr(fmt::format(
        "[launch] {} has no room for {} ranks, {} MiB each; their messages go through {}\n",
        usual.string(), env.world_size, kSegmentBytes >> 20,
        at.empty() ? "what mpirun finds" : at.string()));
  const MpirunCall call = local_mpirun({.env = env,
                                        .trainer = options.trainer,
                                        .command = options.command,
                                        .shared_memory = shared_memory.path(),
                                        .as_root = geteuid() == 0},
                                       contract::lookup_environment);
  MpiRun run(call,
             {.own = {{contract::worker_directory(env)}, env.slots},
              .all = {worker_directories(env), env.world_size},
              .whole = true,
              .mpirun_patience = kMpirunPatience},
             signals);
  run.wait();
  return run.end();
}

contract::TerminationMessage launch_from_pod(const WorkerEnv& env, const WorkerOptions& options,
                                             const std::filesystem::path& ssh_config,
                                             contract::SignalQueue& signals) {
  const MpirunCall call = pod_mpirun({.env = env,
                                      .trainer = options.trainer,
                                      .command = options.command,
                                      .ssh_config = ssh_config},
                                     contract::lookup_environment);
  const std::vector<std::filesystem::path> own{contract::worker_directory(env)};
  MpiRun run(call,
             {.own = {own, env.slots},
              .all = {own, env.slots},
              .whole = false,
              .mpirun_patience = kPodMpirunPatience},
             signals);
  run.wait();
  return run.end();
}

}  // namespace coxswain::launch
