#include "operator/inspect/top.h"

#include <gtest/gtest.h>

#include "tests/support/job_builders.h"

namespace coxswain::inspect {
namespace {

Sighting seen_running(int workers) {
  Sighting seen;
  seen.job = test::make_job().workers(workers).running(1);
  seen.now = test::kStart + std::chrono::seconds(90);
  seen.place = "namespace lab";
  for (int i = 0; i < workers; ++i) {
    job::Worker worker;
    worker.id = {job::Role::kWorker, i, 1, 0};
    worker.node = "node-" + std::to_string(i);
    seen.workers.push_back(worker);
  }
  return seen;
}

TEST(Top, shows_each_rank_and_the_slowest) {
  contract::RanksPage ranks{.world_size = 2, .ranks = {}, .next = {}, .slowest = {}};
  ranks.ranks = {{0, 7600, 0.01, 0.3, 0.69, 120'000'000, 1},
                 {1, 7600, 0.2, 0.0, 0.8, 110'000'000, 0}};
  ranks.slowest = contract::SlowestRank{1, 0.43, "2026-01-01T00:00:30Z"};
  EXPECT_EQ(
      top_text(seen_running(2), ranks, 100),
      "mnist (namespace lab): Running, attempt 1\n"
      "Slowest: rank 1 on node-1, busy for 43 % longer than the middle one, for 1 min\n"
      " RANK  NODE                   IMAGES/S DATA %  COMPUTE  WAITING     MEMORY  TOLD\n"
      "    0  node-0                    7,600    1.0     69.0     30.0   120.0 MB  1 s ago\n"
      "    1  node-1                    7,600   20.0     80.0      0.0   110.0 MB  0 s ago\n");
}

TEST(Top, shows_the_busiest_where_not_all_have_room) {
  contract::RanksPage ranks{.world_size = 50, .ranks = {}, .next = {}, .slowest = {}};
  for (int rank = 0; rank < 40; ++rank)
    ranks.ranks.push_back({rank, 100, 0, 0.5 - rank * 0.01, 0.5 + rank * 0.01, 1, 0});
  const std::string text = top_text(seen_running(50), ranks, 10);
  EXPECT_NE(text.find("\n   39  node-39"), std::string::npos) << text;
  EXPECT_EQ(text.find("\n    0  node-0"), std::string::npos) << text;
  EXPECT_NE(text.find("the busiest 4 of 40 ranks\n10 ranks not told of yet\n"), std::string::npos)
      << text;
}

TEST(Top, says_why_there_is_no_table) {
  EXPECT_NE(top_text(seen_running(1), {}, 10).find("Rank 0 does not answer"), std::string::npos);
  EXPECT_NE(top_text(seen_running(1), {.world_size = 1, .ranks = {}, .next = {}, .slowest = {}}, 10)
                .find("No rank has told of itself yet"),
            std::string::npos);
}

}  // namespace
}  // namespace coxswain::inspect
