#include "trainer/launch/rank.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <functional>
#include <optional>

#include "trainer/contract/error.h"
#include "trainer/contract/worker/child_process.h"
#include "trainer/contract/worker/run_files.h"
#include "trainer/contract/worker/worker_env.h"
#include "trainer/launch/output_copy.h"
#include "trainer/launch/rank_report.h"

namespace coxswain::launch {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kReaderLooks{50};   // after one that took nothing
constexpr std::chrono::milliseconds kLastOutput{2000};  // for a slow reader of the last words
using contract::ChildProcess;
using contract::SignalQueue;
using contract::WorkerEnv;

// Where this rank lies; the launcher's numbers, checked against the worker's.
struct Place {
  int rank = 0;
  bool under_mpi = false;
};

std::optional<int> number_in_environment(const std::string& name) {
  const auto text = contract::lookup_environment(name);
  if (!text) return std::nullopt;
  int number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc{} || end != text->data() + text->size() || number < 0) {
    throw Error(ExitCode::kBadInput, fmt::format("[rank] {}={} is no rank", name, *text));
  }
  return number;
}

Place find_place(const WorkerEnv& env) {
  Place place{.rank = -1, .under_mpi = true};
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "RANK"}) {
    if (const auto number = number_in_environment(name)) {
      place = {.rank = *number, .under_mpi = std::string_view(name) != "RANK"};
      break;
    }
  }
  if (place.rank < 0) {
    throw Error(
        ExitCode::kUsage,
        "[rank] no rank is set: `rank` is started by mpirun or by `coxswain-trainer worker`");
  }
  if (env.role == contract::Role::kWorker && place.rank >= env.world_size) {
    throw Error(ExitCode::kBadInput,
                fmt::format("[rank] rank {} of a world of {}", place.rank, env.world_size));
  }
  return place;
}

// The hostfile and the pods were made from the same job: mpirun must have filled the hosts in
// order.
void check_place(const WorkerEnv& env, const Place& place) {
  if (place.rank / env.slots == env.index) return;
  throw Error(ExitCode::kInternal,
              fmt::format("[rank] rank {} was started on worker {} of {} slots: it belongs to "
                          "worker {}",
                          place.rank, env.index, env.slots, place.rank / env.slots));
}

// mpirun holds the other end of our output. A death signal asked for after mpirun's end never
// comes; a hung-up output tells.
bool launcher_is_gone() {
  pollfd output{.fd = STDOUT_FILENO, .events = 0, .revents = 0};
  return poll(&output, 1, 0) == 1 && (output.revents & (POLLERR | POLLHUP)) != 0;
}

std::int64_t now_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

class Supervisor {
 public:
  // `on_told`: when the order to leave has come; whoever gave it may not wait for the end.
  // `output`: null where what the command prints goes its own way.
  Supervisor(SignalQueue& signals, ChildProcess& command, OutputCopy* output,
             std::chrono::milliseconds grace, std::function<void(const RankReport&)> on_told)
      : signals_(signals),
        command_(command),
        output_(output),
        grace_(grace),
        on_told_(std::move(on_told)) {}

  void tell_to_leave() {
    if (kill_time_) return;
    command_.signal(SIGTERM);
    kill_time_ = Clock::now() + grace_;
    on_told_(report({.code = 128 + SIGTERM, .signal = SIGTERM}));
  }

  RankReport wait() {
    for (;;) {
      wait_for_news();
      while (const auto signal = signals_.next()) handle(*signal);
      if (output_) output_->copy();
      if (const auto end = command_.end()) return report(*end);
      if (kill_time_ && Clock::now() >= *kill_time_) command_.signal_group(SIGKILL);
    }
  }

 private:
  void wait_for_news() const {
    std::vector<int> descriptors{signals_.descriptor(), command_.descriptor()};
    auto limit = until_kill();
    if (output_) {
      for (const int descriptor : output_->descriptors()) descriptors.push_back(descriptor);
      if (output_->waits()) limit = std::min(limit, kReaderLooks);
    }
    contract::wait_readable(descriptors, limit);
  }

  std::chrono::milliseconds until_kill() const {
    if (!kill_time_) return std::chrono::hours(1);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*kill_time_ - Clock::now());
    return std::max(left, std::chrono::milliseconds(10));
  }

  void handle(int signal) {
    if (signal == SIGTERM) return tell_to_leave();
    asked_to_save_ = true;
    command_.signal(SIGUSR1);
  }

  RankReport report(contract::ProcessEnd end) const {
    RankReport result{.rank = 0,
                      .code = end.code,
                      .signal = end.signal,
                      .told = kill_time_.has_value(),
                      .end_ms = now_ms(),
                      .message = std::nullopt};
    // Asked before it could listen (or it never does): it has left, as it was asked to.
    if (asked_to_save_ && end.signal == SIGUSR1) {
      result.code = static_cast<int>(ExitCode::kSaved);
      result.signal = 0;
    }
    return result;
  }

  SignalQueue& signals_;
  ChildProcess& command_;
  OutputCopy* output_;
  std::chrono::milliseconds grace_;
  std::function<void(const RankReport&)> on_told_;
  std::optional<Clock::time_point> kill_time_;
  bool asked_to_save_ = false;
};

// In a local run no PID 1 speaks for the workers >= 1: their last rank does.
void speak_for_worker(const WorkerEnv& env) {
  const auto reports =
      read_reports(contract::worker_directory(env), env.index * env.slots, env.slots);
  if (static_cast<int>(reports.size()) < env.slots) return;
  contract::write_whole_file(contract::termination_file(env), contract::to_json(combine(reports)));
}

RankReport supervise(const RankOptions& options, const WorkerEnv& env, int rank,
                     SignalQueue& signals, const std::function<void(const RankReport&)>& on_told) {
  // Of a local run nobody else keeps it; a pod's log is its node's affair.
  std::optional<OutputCopy> output;
  if (!env.run_dir.empty())
    output.emplace(contract::output_file(contract::worker_directory(env), rank));
  ChildProcess command({.command = options.command,
                        .environment = contract::to_env(env),
                        .death_signal = SIGKILL,
                        .stdout_fd = output ? output->stdout_fd() : -1,
                        .stderr_fd = output ? output->stderr_fd() : -1});
  if (output) output->started();
  OutputCopy* copy = output ? &*output : nullptr;
  const RankReport report = Supervisor(signals, command, copy, options.grace, on_told).wait();
  if (output) output->finish(kLastOutput);
  return report;
}

void leave_report(RankReport report, const WorkerEnv& env, int rank) {
  const auto directory = contract::worker_directory(env);
  report.rank = rank;
  if (!report.message) {
    const auto text = contract::read_small_file(contract::command_message_file(directory, rank),
                                                contract::kMaxTerminationMessageBytes);
    if (text) report.message = contract::parse_termination_message(*text);
  }
  contract::write_whole_file(contract::rank_file(directory, rank), to_json(report));
  if (!env.run_dir.empty() && env.index > 0) speak_for_worker(env);
}

RankReport not_started(const Error& error) {
  RankReport report{.rank = 0,
                    .code = static_cast<int>(error.code()),
                    .signal = 0,
                    .told = false,
                    .end_ms = now_ms(),
                    .message = contract::TerminationMessage{}};
  report.message->phase = "Start";
  report.message->reason = "CannotStart";
  report.message->message = error.what();
  return report;
}

}  // namespace

int run_rank(const RankOptions& options) {
  SignalQueue signals({SIGTERM, SIGUSR1});
  WorkerEnv env = contract::from_env(contract::lookup_environment);
  const Place place = find_place(env);
  if (!env.run_dir.empty()) env.index = place.rank / env.slots;

  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (place.under_mpi && launcher_is_gone()) return 128 + SIGTERM;
  contract::announce_this_process(contract::worker_directory(env), place.rank);
  try {
    check_place(env, place);
    // mpirun's daemon in a pod kills this process before the command's grace is over.
    const auto on_told = [&](const RankReport& report) {
      if (env.run_dir.empty()) leave_report(report, env, place.rank);
    };
    const RankReport report = supervise(options, env, place.rank, signals, on_told);
    leave_report(report, env, place.rank);
    return report.code == static_cast<int>(ExitCode::kSaved) ? 0 : report.code;
  } catch (const Error& error) {
    leave_report(not_started(error), env, place.rank);
    throw;
  }
}

}  // namespace coxswain::launch
