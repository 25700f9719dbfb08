#include "operator/inspect/log_lines.h"

#include <fmt/format.h>

#include <algorithm>

#include "operator/inspect/words.h"
#include "trainer/contract/rfc3339.h"

namespace coxswain::inspect {

namespace {

constexpr std::size_t kMostOfLine = 64 << 10;  // of a line

// What a terminal shows of a line in the end.
std::string_view last_drawing(std::string_view line) {
  while (line.ends_with('\r')) line.remove_suffix(1);
  const std::size_t redrawn = line.rfind('\r');
  if (redrawn != std::string_view::npos) line.remove_prefix(redrawn + 1);
  constexpr std::string_view kClear = "\x1b[K";
  if (line.starts_with(kClear)) line.remove_prefix(kClear.size());
  return line;
}

std::optional<int> chosen_attempt(const Sighting& seen, const LogChoice& choice) {
  std::optional<int> newest;
  for (const job::Worker& worker : seen.workers) {
    if (choice.previous && worker.id.attempt >= seen.job.status.attempt) continue;
    newest = std::max(newest.value_or(0), worker.id.attempt);
  }
  return newest;
}

std::string why_none(const Sighting& seen, const LogChoice& choice) {
  const job::Status& status = seen.job.status;
  if (choice.previous && status.attempt == 0) return "there is no attempt before attempt 0";
  if (choice.previous)
    return fmt::format(
        "no pod of an attempt before attempt {} is left, and its log went with it; "
        "`describe` says why it ended, `logs -f` follows a job over its restarts",
        status.attempt);
  return "none of its pods is there; `describe` says where it stands";
}

}  // namespace

void LineCutter::add(std::string_view piece, const OnLine& on_line) {
  rest_ += piece;
  std::size_t begin = 0;
  for (std::size_t end = rest_.find('\n'); end != std::string::npos;
       end = rest_.find('\n', begin)) {
    on_line(last_drawing(std::string_view(rest_).substr(begin, end - begin)));
    begin = end + 1;
  }
  rest_.erase(0, begin);
  // A bar that is drawn over and over never ends its line.
  const std::size_t redrawn = rest_.rfind('\r');
  if (redrawn != std::string::npos && redrawn > 0 && redrawn + 1 < rest_.size())
    rest_.erase(0, redrawn);
  if (rest_.size() < kMostOfLine) return;
  on_line(last_drawing(rest_));
  rest_.clear();
}

void LineCutter::end(const OnLine& on_line) {
  const std::string_view line = last_drawing(rest_);
  if (!line.empty()) on_line(line);
  rest_.clear();
}

std::string log_prefix(const std::string& who, int attempt) {
  return attempt == 0 ? who + " | " : fmt::format("{} (attempt {}) | ", who, attempt);
}

StampedLine split_stamp(std::string_view line) {
  const std::size_t space = line.find(' ');
  const std::string_view stamp = line.substr(0, space);
  if (!parse_rfc3339(stamp)) return {{}, line};
  return {stamp, space == std::string_view::npos ? std::string_view() : line.substr(space + 1)};
}

bool has_log(const job::Worker& worker) { return worker.phase != job::WorkerPhase::kPending; }

Chosen choose_workers(const Sighting& seen, const LogChoice& choice) {
  const job::TrainingJob& job = seen.job;
  const int slots = job::slots_per_worker(job.spec);
  const int ranks = slots * std::max(job.spec.worker.replicas, job.status.workers);
  if (choice.rank && (*choice.rank < 0 || *choice.rank >= ranks))
    return {{},
            fmt::format("--rank {}: it has {}, 0 to {}", *choice.rank, counted(ranks, "rank"),
                        ranks - 1)};
  Chosen chosen;
  const auto attempt = chosen_attempt(seen, choice);
  for (const job::Worker& worker : seen.workers) {
    if (worker.id.attempt != attempt) continue;
    const bool trains = worker.id.role == job::Role::kWorker;
    if (!choice.rank || (trains && worker.id.index == *choice.rank / slots))
      chosen.workers.push_back(worker);
  }
  std::ranges::sort(chosen.workers, {}, &job::Worker::id);
  if (!chosen.workers.empty()) return chosen;
  chosen.problem = attempt ? fmt::format("--rank {}: its pod is not there in attempt {}",
                                         choice.rank.value_or(0), *attempt)
                           : why_none(seen, choice);
  chosen.may_come = !choice.previous && !job::is_terminal(job.status);
  return chosen;
}

}  // namespace coxswain::inspect
