#include "trainer/report/rank_table.h"

#include <gtest/gtest.h>

namespace coxswain::report {
namespace {

using std::chrono::seconds;
const RankTable::Time kStart = std::chrono::system_clock::from_time_t(1714564800);

backend::RankFigures figures(int rank, double waiting, double data = 0) {
  return {.rank = rank,
          .seconds = 2,
          .samples = 500,
          .seconds_in_data = data,
          .seconds_waiting = waiting,
          .memory_mib = 100};
}

TEST(RankTable, tells_each_rank_s_shares) {
  RankTable table;
  table.begin(2);
  table.add(figures(1, 0.5, 0.25), kStart);
  const auto page = table.page(0, kStart + seconds(3));
  EXPECT_EQ(page.world_size, 2);
  ASSERT_EQ(page.ranks.size(), 1u);
  const contract::RankRow& row = page.ranks[0];
  EXPECT_EQ(row.rank, 1);
  EXPECT_DOUBLE_EQ(row.samples_per_second, 250);
  EXPECT_DOUBLE_EQ(row.waiting, 0.25);
  EXPECT_DOUBLE_EQ(row.data, 0.125);
  EXPECT_DOUBLE_EQ(row.compute, 0.625);
  EXPECT_EQ(row.memory_bytes, 100 << 20);
  EXPECT_DOUBLE_EQ(row.seconds_ago, 3);
  EXPECT_FALSE(page.slowest) << "not all have spoken";
}

TEST(RankTable, names_the_one_that_the_others_wait_for_and_since_when) {
  RankTable table;
  table.begin(3);
  table.add(figures(0, 1), kStart);
  table.add(figures(1, 1), kStart);
  table.add(figures(2, 0.2), kStart);
  table.add(figures(2, 0.1), kStart + seconds(60));
  const auto page = table.page(0, kStart + seconds(60));
  ASSERT_TRUE(page.slowest);
  EXPECT_EQ(page.slowest->rank, 2);
  EXPECT_NEAR(page.slowest->behind, 0.9, 1e-9);
  EXPECT_EQ(page.slowest->since, "2024-05-01T12:00:00Z");
  table.add(figures(2, 1), kStart + seconds(61));
  EXPECT_FALSE(table.page(0, kStart).slowest) << "it is as fast as the others now";
}

TEST(RankTable, gives_pages) {
  RankTable table;
  table.begin(600);
  for (int rank = 0; rank < 600; ++rank) table.add(figures(rank, 0.5), kStart);
  int seen = 0;
  for (std::optional<int> first = 0; first;) {
    const auto page = table.page(*first, kStart);
    EXPECT_EQ(page.ranks.front().rank, *first);
    EXPECT_LE(contract::to_json(page).size(), contract::kMaxRanksPageBytes);
    EXPECT_EQ(contract::parse_ranks_page(contract::to_json(page)), page);
    seen += static_cast<int>(page.ranks.size());
    first = page.next;
  }
  EXPECT_EQ(seen, 600);
}

TEST(RankTable, takes_no_nonsense) {
  RankTable table;
  table.begin(2);
  table.add(figures(-1, 0), kStart);
  table.add(figures(2, 0), kStart);
  table.add({.rank = 0, .seconds = 0}, kStart);
  EXPECT_TRUE(table.page(0, kStart).ranks.empty());
  for (const char* text : {"", "[]", "{\"ranks\":[1]}", "{\"worldSize\":\"a\"}"})
    EXPECT_FALSE(contract::parse_ranks_page(text)) << text;
}

}  // namespace
}  // namespace coxswain::report
