#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace coxswain::contract {

// Value. What one rank does, over its last seconds; shares of its time, 0 to 1.
struct RankRow {
  int rank = 0;
  double samples_per_second = 0;
  double data = 0;                // waits for its images
  double waiting = 0;             // waits for sums, that is for the network and for other ranks
  double compute = 0;             // all else
  std::int64_t memory_bytes = 0;  // resident
  double seconds_ago = 0;         // when it said so
  bool operator==(const RankRow&) const = default;
};

// Value. The rank that keeps the others waiting.
struct SlowestRank {
  int rank = 0;
  double behind = 0;  // how much more of its time it is busy than the middle one: 0.5 is by half
  std::string since;  // RFC 3339, UTC
  bool operator==(const SlowestRank&) const = default;
};

// Value. The body of GET /ranks and of the pages after it, /ranks/<first>: ranks that have spoken,
// in order.
struct RanksPage {
  int world_size = 0;
  std::vector<RankRow> ranks;
  std::optional<int> next;  // the first rank of the next page
  std::optional<SlowestRank> slowest;
  bool operator==(const RanksPage&) const = default;
};

inline constexpr int kRanksOfPage = 256;
inline constexpr std::size_t kMaxRanksPageBytes = 256 << 10;

std::string to_json(const RanksPage& page);
// Nothing for what is none. Never throws.
std::optional<RanksPage> parse_ranks_page(std::string_view json);

}  // namespace coxswain::contract
