#include "operator/inspect_command.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

#include "operator/inspect/describe.h"
#include "operator/inspect/log_lines.h"
#include "operator/inspect/top.h"
#include "operator/kube/http_transport.h"
#include "trainer/contract/error.h"
#include "trainer/contract/worker/progress.h"
#include "trainer/contract/worker/ranks_page.h"

namespace coxswain {

namespace {

using inspect::Sighting;

constexpr std::chrono::milliseconds kPodsEvery{1000};  // for pods that come

std::unique_ptr<JobSight> make_sight(const SightOptions& options) {
  const bool elsewhere =
      !options.kubeconfig.empty() || !options.rules.context.empty() || !options.name_space.empty();
  const bool here = options.local || !options.run_dir.empty();
  if (here && elsewhere)
    throw Error(ExitCode::kUsage,
                "--local and --run-dir name a run of this machine: leave --kubeconfig, --context "
                "and --namespace out");
  if (here) return make_local_sight(options);
  kube::limit_http_threads(1);  // as fast as more
  return make_cluster_sight(options);
}

[[noreturn]] void refuse_missing(const JobSight& sight, const SightOptions& options) {
  throw Error(ExitCode::kBadInput,
              fmt::format("{}: there is no such job in {}", options.job, sight.place()));
}

Sighting look(JobSight& sight, const SightOptions& options, bool with_events) {
  auto seen = sight.look(with_events);
  if (!seen) refuse_missing(sight, options);
  return std::move(*seen);
}

// Lines of several readers, each in one piece.
class Printer {
 public:
  void line(const std::string& prefix, std::string_view text) {
    const std::lock_guard lock(mutex_);
    std::fwrite(prefix.data(), 1, prefix.size(), stdout);
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fputc('\n', stdout);
    std::fflush(stdout);
  }
  void note(const std::string& text) {
    const std::lock_guard lock(mutex_);
    std::fputs((text + "\n").c_str(), stderr);
  }

 private:
  std::mutex mutex_;
};

std::string why_no_log(const job::Worker& worker) {
  std::string text = job::short_name(worker.id.role, worker.id.index) + " has no log yet";
  if (!worker.reason.empty()) text += ": " + worker.reason;
  if (!worker.message.empty()) text += ": " + worker.message;
  return text;
}

// What the logs of several workers say.
class Logs {
 public:
  Logs(JobSight& sight, const SightOptions& options, const LogOptions& logs)
      : sight_(sight), options_(options), logs_(logs) {}

  int print() {
    const inspect::Chosen chosen = choose();
    if (!chosen.problem.empty()) refuse(chosen);
    for (const job::Worker& worker : chosen.workers) {
      if (inspect::has_log(worker))
        read(worker, {});
      else
        printer_.note(why_no_log(worker));
    }
    return 0;
  }

  int follow() {
    for (bool over = false; !over;) {
      const auto seen = sight_.look(false);
      if (!seen && readers_.empty()) refuse_missing(sight_, options_);
      over = !seen || job::is_terminal(seen->job.status);
      if (seen) start_readers(inspect::choose_workers(*seen, {logs_.rank, logs_.previous}));
      over = over || has_failed();
      if (!over) std::this_thread::sleep_for(kPodsEvery);
    }
    readers_.clear();  // each to its end
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(*failure_);
    return 0;
  }

 private:
  inspect::Chosen choose() {
    return inspect::choose_workers(look(sight_, options_, false), {logs_.rank, logs_.previous});
  }

  bool has_failed() {
    const std::lock_guard lock(mutex_);
    return failure_.has_value();
  }

  [[noreturn]] void refuse(const inspect::Chosen& chosen) const {
    throw Error(ExitCode::kBadInput, fmt::format("{}: {}", options_.job, chosen.problem));
  }

  void read(const job::Worker& worker, std::stop_token stop) {
    sight_.read_log(worker, logs_.rank, logs_.follow, std::move(stop),
                    [&](const std::string& who, std::string_view line) {
                      printer_.line(inspect::log_prefix(who, worker.id.attempt), line);
                    });
  }

  void start_readers(const inspect::Chosen& chosen) {
    if (!chosen.problem.empty() && !chosen.may_come && readers_.empty()) refuse(chosen);
    for (const job::Worker& worker : chosen.workers) {
      if (!inspect::has_log(worker) || readers_.contains(worker.uid)) continue;
      readers_.emplace(worker.uid, [this, worker] {
        try {
          read(worker, {});
        } catch (const std::exception&) {
          const std::lock_guard lock(mutex_);
          if (!failure_) failure_ = std::current_exception();
        }
      });
    }
  }

  JobSight& sight_;
  const SightOptions& options_;
  const LogOptions logs_;
  Printer printer_;
  std::mutex mutex_;
  std::optional<std::exception_ptr> failure_;    // guarded by mutex_
  std::map<std::string, std::jthread> readers_;  // by the pod's uid
};

// All pages of what rank 0 knows; a rank that is lost meanwhile leaves what came before.
contract::RanksPage read_ranks(JobSight& sight, const Sighting& seen) {
  contract::RanksPage all;
  for (std::optional<int> first = 0; first;) {
    const std::string path = *first == 0 ? "/ranks" : fmt::format("/ranks/{}", *first);
    const auto body = sight.ask_rank_zero(seen, path);
    const auto page = body ? contract::parse_ranks_page(*body) : std::nullopt;
    if (!page) break;
    all.world_size = page->world_size;
    all.slowest = page->slowest;
    all.ranks.insert(all.ranks.end(), page->ranks.begin(), page->ranks.end());
    first = page->next > first ? page->next : std::nullopt;
  }
  return all;
}

// The status is some seconds old.
void enter_progress(JobSight& sight, Sighting& seen) {
  const auto body = sight.ask_rank_zero(seen, "/progress");
  const auto document = body ? contract::parse_progress(*body) : std::nullopt;
  if (document && document->progress) seen.job.status.progress = document->progress;
}

int terminal_lines() {
  winsize size{};
  if (isatty(STDOUT_FILENO) == 0) return 0;
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0;
  return known ? size.ws_row : 24;
}

}  // namespace

int show_top(const SightOptions& options, int seconds) {
  const auto sight = make_sight(options);
  for (;;) {
    Sighting seen = look(*sight, options, false);
    const bool over = job::is_terminal(seen.job.status);
    contract::RanksPage ranks;
    if (!over) {
      ranks = read_ranks(*sight, seen);
      enter_progress(*sight, seen);
    }
    const int lines = terminal_lines();
    if (lines > 0 && seconds > 0) std::fputs("\x1b[H\x1b[2J", stdout);
    constexpr int kAllRanks = 1 << 20;
    std::fputs(inspect::top_text(seen, ranks, lines > 0 ? lines : kAllRanks).c_str(), stdout);
    std::fflush(stdout);
    if (over || seconds == 0 || lines == 0) return 0;
    std::this_thread::sleep_for(std::chrono::seconds(seconds));
  }
}

int describe_job(const SightOptions& options) {
  const auto sight = make_sight(options);
  const std::string text = inspect::describe(look(*sight, options, true));
  std::fputs(text.c_str(), stdout);
  return 0;
}

int show_logs(const SightOptions& options, const LogOptions& logs) {
  if (logs.follow && logs.previous)
    throw Error(ExitCode::kUsage, "--previous is of an attempt that is over: leave --follow out");
  const auto sight = make_sight(options);
  Logs shown(*sight, options, logs);
  return logs.follow ? shown.follow() : shown.print();
}

}  // namespace coxswain
