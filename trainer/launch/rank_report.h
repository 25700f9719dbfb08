#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/contract/worker/announced_ranks.h"
#include "trainer/contract/worker/termination_message.h"

namespace coxswain::launch {

// Value. How the command of one rank ended, as its supervisor saw it: rank-<r>.json.
struct RankReport {
  int rank = 0;
  int code = 0;             // 128 + signal for signals
  int signal = 0;           // 0: it exited by itself
  bool told = false;        // it had been told to leave at once before: part of an avalanche
  std::int64_t end_ms = 0;  // wall clock; orders the ends on one machine
  std::optional<contract::TerminationMessage> message;  // what the command itself left
  bool operator==(const RankReport&) const = default;
};

bool failed(const RankReport& report);  // neither done nor saved

std::string to_json(const RankReport& report);                       // at most 4 KiB
std::optional<RankReport> parse_rank_report(std::string_view json);  // nothing if damaged

// The report of a rank whose supervisor was killed before it could write one.
RankReport lost_supervisor(int rank);

// The reports that are in a worker's directory, for ranks [first_rank, first_rank + count).
std::vector<RankReport> read_reports(const std::filesystem::path& worker_directory, int first_rank,
                                     int count);

// Those of the ranks that have ended, in rank order, with lost_supervisor() for one that left none.
std::vector<RankReport> reports_of(const contract::AnnouncedRanks& ranks);

// How a worker ended, from the ends of its own ranks: 0, 75, or the first cause.
//
// The first cause is the earliest failure of a rank that nobody had told to leave; a peer lost (71)
// is a cause only if nothing else is. If all were told, the cause lies on another worker: 71.
contract::TerminationMessage combine(const std::vector<RankReport>& reports);

}  // namespace coxswain::launch
