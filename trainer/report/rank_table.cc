#include "trainer/report/rank_table.h"

#include <algorithm>
#include <vector>

#include "trainer/contract/rfc3339.h"

namespace coxswain::report {

namespace {

// A rank that is busy by so much more of its time than the middle one keeps the others waiting;
// less is chance.
constexpr double kNoticeable = 0.1;

double busy(const contract::RankRow& row) { return row.data + row.compute; }

}  // namespace

void RankTable::begin(int world_size) {
  world_size_ = world_size;
  rows_.clear();
  slowest_.reset();
}

void RankTable::add(const backend::RankFigures& figures, Time now) {
  if (figures.rank < 0 || figures.rank >= world_size_ || !(figures.seconds > 0)) return;
  const auto share = [&](double seconds) {
    return std::clamp(seconds / figures.seconds, 0.0, 1.0);
  };
  contract::RankRow row{.rank = figures.rank,
                        .samples_per_second = figures.samples / figures.seconds,
                        .data = share(figures.seconds_in_data),
                        .waiting = share(figures.seconds_waiting),
                        .memory_bytes = static_cast<std::int64_t>(figures.memory_mib * (1 << 20))};
  row.compute = std::max(0.0, 1 - row.data - row.waiting);
  rows_[figures.rank] = {row, now};
  slowest_ = find_slowest(now);
}

std::optional<RankTable::Slowest> RankTable::find_slowest(Time now) const {
  if (rows_.size() < 2 || static_cast<int>(rows_.size()) < world_size_) return std::nullopt;
  std::vector<double> shares;
  const Row* most = nullptr;
  for (const auto& [rank, row] : rows_) {
    shares.push_back(busy(row.said));
    if (!most || busy(row.said) > busy(most->said)) most = &row;
  }
  // The lower one of two in the middle: of two ranks the other one.
  const auto middle = shares.begin() + (std::ssize(shares) - 1) / 2;
  std::ranges::nth_element(shares, middle);
  const double behind = *middle > 0 ? busy(most->said) / *middle - 1 : 0;
  if (behind < kNoticeable) return std::nullopt;
  const bool same = slowest_ && slowest_->rank == most->said.rank;
  return Slowest{most->said.rank, behind, same ? slowest_->since : now};
}

contract::RanksPage RankTable::page(int first, Time now) const {
  contract::RanksPage page;
  page.world_size = world_size_;
  for (auto at = rows_.lower_bound(first); at != rows_.end(); ++at) {
    if (std::ssize(page.ranks) == contract::kRanksOfPage) {
      page.next = at->first;
      break;
    }
    page.ranks.push_back(at->second.said);
    page.ranks.back().seconds_ago =
        std::max(0.0, std::chrono::duration<double>(now - at->second.time).count());
  }
  if (slowest_)
    page.slowest =
        contract::SlowestRank{slowest_->rank, slowest_->behind, to_rfc3339(slowest_->since)};
  return page;
}

}  // namespace coxswain::report
