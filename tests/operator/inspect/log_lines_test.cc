#include "operator/inspect/log_lines.h"

#include <gtest/gtest.h>

#include "tests/support/job_builders.h"

namespace coxswain::inspect {
namespace {

using Lines = std::vector<std::string>;

Lines cut(const std::vector<std::string>& pieces) {
  Lines lines;
  const auto add = [&](std::string_view line) { lines.emplace_back(line); };
  LineCutter cutter;
  for (const std::string& piece : pieces) cutter.add(piece, add);
  cutter.end(add);
  return lines;
}

TEST(LineCutter, joins_pieces_and_keeps_what_was_drawn_last) {
  EXPECT_EQ(cut({"one\ntw", "o\n\nthree"}), (Lines{"one", "two", "", "three"}));
  EXPECT_EQ(cut({"\r 1 %", "\r 2 %", "\r\x1b[Kepoch 1\r\n", "\r 3 %"}), (Lines{"epoch 1", " 3 %"}));
  EXPECT_EQ(cut({""}), Lines{});
  const Lines long_lines = cut({std::string(200'000, 'x')});
  EXPECT_GE(long_lines.size(), 1u);
}

TEST(LineCutter, a_bar_that_never_ends_its_line_takes_no_memory) {
  LineCutter cutter;
  int lines = 0;
  for (int i = 0; i < 100'000; ++i) cutter.add("\r 50 % done", [&](auto) { ++lines; });
  EXPECT_EQ(lines, 0);
}

TEST(SplitStamp, takes_the_time_off) {
  const auto [stamp, text] = split_stamp("2026-01-31T12:00:01.123456789Z a b");
  EXPECT_EQ(stamp, "2026-01-31T12:00:01.123456789Z");
  EXPECT_EQ(text, "a b");
  EXPECT_EQ(split_stamp("no time").text, "no time");
  EXPECT_EQ(split_stamp("2026-01-31T12:00:01Z").text, "");
}

Sighting seen(const job::TrainingJob& job, const std::vector<job::WorkerId>& ids) {
  Sighting sighting;
  sighting.job = job;
  for (const job::WorkerId& id : ids) {
    job::Worker worker;
    worker.id = id;
    sighting.workers.push_back(worker);
  }
  return sighting;
}

Lines names(const Chosen& chosen) {
  Lines lines;
  for (const job::Worker& worker : chosen.workers) lines.push_back(to_text(worker.id));
  return lines;
}

TEST(ChooseWorkers, takes_the_attempt_and_the_rank_asked_for) {
  using job::Role;
  const Sighting sighting =
      seen(test::make_job().workers(2).running(1),
           {{Role::kWorker, 1, 1, 0}, {Role::kWorker, 0, 1, 0}, {Role::kWorker, 1, 0, 0}});
  EXPECT_EQ(names(choose_workers(sighting, {})),
            (Lines{"worker-0 attempt=1", "worker-1 attempt=1"}));
  EXPECT_EQ(names(choose_workers(sighting, {1, false})), Lines{"worker-1 attempt=1"});
  EXPECT_EQ(names(choose_workers(sighting, {std::nullopt, true})), Lines{"worker-1 attempt=0"});
  EXPECT_EQ(choose_workers(sighting, {2, false}).problem, "--rank 2: it has 2 ranks, 0 to 1");
}

TEST(ChooseWorkers, says_why_there_is_none) {
  const Sighting first = seen(test::make_job().queued(), {});
  EXPECT_EQ(choose_workers(first, {std::nullopt, true}).problem,
            "there is no attempt before attempt 0");
  EXPECT_TRUE(choose_workers(first, {}).may_come);
  const Sighting ended = seen(test::make_job().ended(job::Phase::kSucceeded), {});
  EXPECT_FALSE(choose_workers(ended, {}).may_come);
  EXPECT_NE(choose_workers(ended, {}).problem, "");
  const Sighting later = seen(test::make_job().running(3), {{job::Role::kWorker, 0, 3, 0}});
  EXPECT_NE(choose_workers(later, {std::nullopt, true}).problem.find("before attempt 3"),
            std::string::npos);
}

}  // namespace
}  // namespace coxswain::inspect
