#include "operator/inspect/top.h"

#include <fmt/format.h>

#include <algorithm>

#include "operator/inspect/words.h"
#include "trainer/contract/printable.h"
#include "trainer/contract/rfc3339.h"

namespace coxswain::inspect {

namespace {

using contract::RankRow;

constexpr int kLinesAround = 6;  // headline, progress, slowest, head, what is left out

std::string node_of(const Sighting& seen, int rank) {
  const int index = rank / job::slots_per_worker(seen.job.spec);
  for (const job::Worker& worker : seen.workers)
    if (worker.id.role == job::Role::kWorker && worker.id.index == index &&
        worker.id.attempt == seen.job.status.attempt)
      return printable(worker.node, 40);
  return "";
}

std::string row_text(const Sighting& seen, const RankRow& row) {
  return fmt::format("{:>5}  {:<20} {:>10} {:>6.1f} {:>8.1f} {:>8.1f}  {:>9}  {}\n", row.rank,
                     node_of(seen, row.rank),
                     grouped(static_cast<std::int64_t>(row.samples_per_second)), row.data * 100,
                     row.compute * 100, row.waiting * 100, bytes_text(row.memory_bytes),
                     duration(row.seconds_ago) + " ago");
}

// As they say themselves, once all have; else as rank 0 saw the last steps.
double rate_of(const job::Progress& progress, const contract::RanksPage& ranks) {
  if (ranks.ranks.empty() || std::ssize(ranks.ranks) < ranks.world_size)
    return progress.samples_per_second;
  double rate = 0;
  for (const RankRow& row : ranks.ranks) rate += row.samples_per_second;
  return rate;
}

std::string headline(const Sighting& seen, const contract::RanksPage& ranks) {
  const job::Status& status = seen.job.status;
  std::string text = fmt::format("{} ({}): {}, attempt {}\n", seen.job.metadata.name, seen.place,
                                 job::to_text(status.phase), status.attempt);
  if (!status.progress) return text;
  const job::Progress& progress = *status.progress;
  text += fmt::format("step {} of {} on {}", grouped(progress.step), grouped(progress.steps),
                      counted(progress.world_size, "rank"));
  if (const double rate = rate_of(progress, ranks); rate > 0)
    text += fmt::format(", {} images/s", grouped(static_cast<std::int64_t>(rate)));
  if (progress.loss) text += fmt::format(", loss {:.4f}", *progress.loss);
  if (progress.seconds_left && !job::is_terminal(status))
    text += fmt::format(", about {} left", duration(*progress.seconds_left));
  return text + "\n";
}

std::string slowest_text(const Sighting& seen, const contract::RanksPage& ranks) {
  if (!ranks.slowest) return "No rank keeps the others waiting\n";
  std::string text = fmt::format("Slowest: rank {}", ranks.slowest->rank);
  const std::string node = node_of(seen, ranks.slowest->rank);
  if (!node.empty()) text += " on " + node;
  text +=
      fmt::format(", busy for {:.0f} % longer than the middle one", ranks.slowest->behind * 100);
  if (const auto since = parse_rfc3339(ranks.slowest->since))
    text += fmt::format(", for {}", duration(static_cast<double>((seen.now - *since).count())));
  return text + "\n";
}

}  // namespace

std::string top_text(const Sighting& seen, const contract::RanksPage& ranks, int lines) {
  std::string text = headline(seen, ranks);
  if (job::is_terminal(seen.job.status)) return text + "It has ended: no rank is there\n";
  if (ranks.ranks.empty())
    return text +
           (ranks.world_size > 0
                ? "No rank has told of itself yet: each does once a second, in turn; those "
                  "of asynchronous training do not\n"
                : "Rank 0 does not answer: it has not begun yet, or its program is not ours\n");
  text += slowest_text(seen, ranks);
  text += fmt::format("{:>5}  {:<20} {:>10} {:>6} {:>8} {:>8}  {:>9}  {}\n", "RANK", "NODE",
                      "IMAGES/S", "DATA %", "COMPUTE", "WAITING", "MEMORY", "TOLD");
  std::vector<RankRow> rows = ranks.ranks;
  const auto room = static_cast<std::size_t>(std::max(1, lines - kLinesAround));
  const std::size_t shown = std::min(rows.size(), room);
  if (shown < rows.size())
    std::ranges::stable_sort(rows, std::ranges::greater(),
                             [](const RankRow& row) { return row.data + row.compute; });
  for (std::size_t i = 0; i < shown; ++i) text += row_text(seen, rows[i]);
  if (shown < rows.size())
    text += fmt::format("the busiest {} of {}\n", shown, counted(std::ssize(rows), "rank"));
  const auto silent = ranks.world_size - std::ssize(ranks.ranks);
  if (silent > 0) text += fmt::format("{} not told of yet\n", counted(silent, "rank"));
  return text;
}

}  // namespace coxswain::inspect
