#include "trainer/launch/rank_report.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/test_flags.h"
#include "trainer/contract/worker/run_files.h"

namespace coxswain::launch {
namespace {

RankReport ended(int rank, int code, std::int64_t end_ms, bool told = false) {
  return {.rank = rank,
          .code = code,
          .signal = code > 128 ? code - 128 : 0,
          .told = told,
          .end_ms = end_ms,
          .message = std::nullopt};
}

TEST(Combine, finds_the_first_cause) {
  struct Row {
    const char* name;
    std::vector<RankReport> reports;
    int code;
    int rank;
    const char* reason;
  };
  const Row rows[] = {
      {"nothing known", {}, 0, -1, ""},
      {"all done", {ended(0, 0, 5), ended(1, 0, 6)}, 0, 0, ""},
      {"earliest failure", {ended(0, 66, 9), ended(1, 65, 8)}, 65, 1, "Error"},
      {"told ones are no cause", {ended(0, 143, 1, true), ended(1, 3, 8)}, 3, 1, "Error"},
      {"a lost peer is none", {ended(0, 71, 1), ended(1, 137, 2)}, 137, 1, "Signal"},
      {"a lost peer alone", {ended(0, 71, 1), ended(1, 143, 0, true)}, 71, 0, "Error"},
      {"all told", {ended(0, 143, 2, true), ended(1, 71, 1, true)}, 71, 0, "PeerLost"},
      {"saved", {ended(0, 75, 1), ended(1, 75, 2)}, 75, 0, ""},
      {"saved, others told", {ended(0, 75, 1), ended(1, 143, 2, true)}, 75, 0, ""},
      {"saved, one failed", {ended(0, 75, 1), ended(1, 74, 2)}, 74, 1, "Error"},
  };
  for (const Row& row : rows) {
    const auto end = combine(row.reports);
    EXPECT_EQ(end.exit_code, row.code) << row.name;
    EXPECT_EQ(end.rank, row.rank) << row.name;
    EXPECT_EQ(end.reason, row.reason) << row.name;
  }
}

TEST(Combine, keeps_what_the_command_said_and_rank_0s_checkpoint) {
  auto zero = ended(0, 71, 9);
  zero.message = contract::TerminationMessage{};
  zero.message->checkpoint = contract::CheckpointProgress{
      .step = 7, .time = "2024-05-01T12:00:00Z", .path = "step-00000007.g1", .bytes = 1};
  auto one = ended(1, 76, 5);
  one.message = contract::TerminationMessage{};
  one.message->reason = "NotFinite";

  const auto end = combine({zero, one});

  EXPECT_EQ(end.exit_code, 76);
  EXPECT_EQ(end.rank, 1);
  EXPECT_EQ(end.reason, "NotFinite");
  EXPECT_EQ(end.checkpoint, zero.message->checkpoint);
}

TEST(RankReport, is_read_as_written) {
  auto report = ended(3, 139, 1'700'000'000'123, true);
  report.message = contract::TerminationMessage{};
  report.message->exit_code = 1;
  report.message->message = "what \"it\" said";
  EXPECT_EQ(parse_rank_report(to_json(report)), report);
}

TEST(RankReport, is_refused_when_damaged) {
  const std::string good = to_json(ended(1, 0, 5));
  for (const std::string& text : {std::string(), std::string("[]"), std::string("{\"rank\":1}"),
                                  good.substr(0, good.size() - 1), std::string(5000, ' ') + good,
                                  std::string("{\"rank\":\"1\",\"code\":0,\"signal\":0,"
                                              "\"told\":false,\"endMs\":1}")}) {
    EXPECT_EQ(parse_rank_report(text), std::nullopt) << text;
  }
}

TEST(RunFiles, an_environment_is_read_as_written) {
  const test::TemporaryDirectory directory;
  const std::map<std::string, std::string> variables{
      {"A", ""}, {"B", "two\nlines"}, {"C", "x=y;$(z)"}};
  contract::save_environment(directory.path(), variables);
  EXPECT_EQ(contract::load_environment(directory.path()), variables);
  EXPECT_THROW(contract::load_environment(directory.path() / "none"), Error);
}

TEST(RunFiles, announced_ranks_are_read_back_and_nonsense_is_not) {
  const test::TemporaryDirectory directory;
  contract::announce_this_process(directory.path() / "new", 4);
  const auto announced = contract::read_announced(directory.path() / "new");
  ASSERT_EQ(announced.size(), 1U);
  EXPECT_EQ(announced[0], (contract::AnnouncedRank{.pid = getpid(), .rank = 4}));

  contract::write_whole_file(directory.path() / "pid", "-1 0\n1 0\n0 3\n77 2\nx y\n");
  EXPECT_EQ(contract::read_announced(directory.path()),
            (std::vector<contract::AnnouncedRank>{{.pid = 77, .rank = 2}}));
}

}  // namespace
}  // namespace coxswain::launch
