#include "operator/cluster/local_worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "trainer/contract/exit_code.h"
#include "trainer/contract/worker/run_files.h"

namespace coxswain::cluster {

namespace {

constexpr std::chrono::milliseconds kRanksEvery{20};  // for ranks that announce themselves
constexpr std::chrono::seconds kLaunchPatience{15};
constexpr int kKilled = 128 + SIGKILL;

}  // namespace

LocalWorker::LocalWorker(const LocalWorkerOptions& options,
                         std::optional<contract::ChildProcess> child)
    : id_(options.id),
      node_(options.node),
      directory_(options.directory),
      supervises_(options.supervises),
      child_(std::move(child)),
      ranks_({directory_}, options.slots) {
  if (child_) watched_.push_back(child_->descriptor());  // though it may have ended already
}

std::string uid_of(const job::WorkerId& id) {
  return fmt::format("{}-{}-{}", job::short_name(id.role, id.index), id.attempt, id.incarnation);
}

job::Worker LocalWorker::observe(job::Time now, bool launch_over) {
  ranks_.look();
  if (leaving() && !child_) ranks_.signal_once(SIGUSR1);  // those that have begun since, too
  watch();
  if (kill_time_ && Clock::now() >= *kill_time_) kill();
  find_end(now, launch_over);

  job::Worker seen;
  seen.id = id_;
  seen.uid = uid();
  seen.scheduled = true;
  seen.node = node_;
  seen.deletion_time = deletion_time_;
  const bool begun = child_ || !ranks_.ranks().empty();
  seen.phase = begun ? job::WorkerPhase::kRunning : job::WorkerPhase::kPending;
  seen.ready = begun && (ranks_.complete() || !supervises_);
  if (!exit_code_) return seen;
  seen.phase = *exit_code_ == 0 ? job::WorkerPhase::kSucceeded : job::WorkerPhase::kFailed;
  seen.ready = false;
  seen.exit_code = exit_code_;
  seen.reason = *exit_code_ == 0 ? "Completed" : "Error";
  seen.finished_time = finished_time_;
  seen.termination_message = termination_message_;
  if (has_lost_host()) {  // as of a pod whose node is gone
    seen.exit_code.reset();
    seen.disruption = "HostLost";
  }
  return seen;
}

void LocalWorker::find_end(job::Time now, bool launch_over) {
  if (exit_code_ || !processes_ended()) return;
  if (!child_ && !launch_over) {
    if (!ranks_.complete()) return;
    if (!tell_time_) tell_time_ = Clock::now() + kLaunchPatience;
    if (Clock::now() < *tell_time_) return;
  }
  if (const auto text = contract::read_small_file(directory_ / "termination.json",
                                                  contract::kMaxTerminationMessageBytes)) {
    termination_message_ = contract::parse_termination_message(*text);
  }
  std::optional<int> code;
  if (child_) {
    code = child_->end()->code;
  } else if (termination_message_) {
    code = termination_message_->exit_code;
  } else if (ranks_.complete()) {
    code = kKilled;  // nobody was left to write a message
  }
  // Ranks that did their part leave a worker that only serves, like a pod, until it is told to go.
  const bool good = !code || *code == 0 || *code == static_cast<int>(ExitCode::kSaved);
  if (!child_ && good && !leaving()) return;
  exit_code_ = code.value_or(0);
  finished_time_ = now;
}

bool LocalWorker::processes_ended() const {
  return (!child_ || contract::has_ended(*child_)) && ranks_.all_ended();
}

void LocalWorker::ask_to_leave(job::Time now, job::Seconds grace) {
  if (leaving()) return;
  deletion_time_ = now + grace;
  kill_time_ = Clock::now() + grace;
  if (child_) return child_->signal(SIGTERM);
  ranks_.look();
  ranks_.signal_once(SIGUSR1);
}

void LocalWorker::kill() {
  if (child_) child_->signal_group(SIGKILL);
  ranks_.look();
  ranks_.kill();
}

void LocalWorker::watch() {
  watched_ = ranks_.descriptors();
  if (child_ && !contract::has_ended(*child_)) watched_.push_back(child_->descriptor());
}

std::optional<LocalWorker::Clock::time_point> LocalWorker::look_again() const {
  if (exit_code_) return std::nullopt;
  std::optional<Clock::time_point> next = kill_time_;
  if (tell_time_ && Clock::now() < *tell_time_) {
    next = std::min(next.value_or(*tell_time_), *tell_time_);
  }
  if (supervises_ && !ranks_.complete()) {
    const auto soon = Clock::now() + kRanksEvery;
    next = std::min(next.value_or(soon), soon);
  }
  return next;
}

}  // namespace coxswain::cluster
