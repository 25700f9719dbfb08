#include "trainer/report/timeline_words.h"

#include <gtest/gtest.h>

namespace coxswain::report {
namespace {

void add_step(std::vector<TimelineSpan>& spans, int rank, std::int64_t step, double conv) {
  const auto add = [&](const char* name, const char* part, double length) {
    spans.push_back({name, part, 0, length, rank, 0, step});
  };
  add("step", "step", 0.010);
  add("load", "load", 0.0005);
  add("conv1", "forward", 0.001);
  add("conv1", "backward", conv);
  add("sums and update", "finish", 0.004);
  add("bucket 0", "wait", 0.003);
  add("update", "update", 0.001);
  add("decode", "decode", 0.002);
}

TEST(TimelineWords, tells_what_a_step_is_made_of_and_who_is_late) {
  std::vector<TimelineSpan> spans;
  for (const std::int64_t step : {100, 101})
    for (const int rank : {0, 1}) add_step(spans, rank, step, rank == 1 ? 0.004 : 0.002);
  EXPECT_EQ(describe_timeline(spans),
            "2 steps, 100 to 101, of 2 ranks: a step takes 10 ms\n"
            "of it: waiting for data 5 %, forward 10 %, backward 30 %, waiting for sums 30 %, "
            "update 10 %, the rest 15 %\n"
            "reading and decoding of a step's images, on threads of their own: 2 ms\n"
            "the longest layers: conv1, backward 3 ms; conv1, forward 1 ms\n"
            "rank 1 is late: its own work takes 6.5 ms a step, that of the others 4.5 ms; it "
            "computes longer\n");
}

TEST(TimelineWords, tells_that_no_rank_is_late) {
  std::vector<TimelineSpan> spans;
  for (const int rank : {0, 1}) add_step(spans, rank, 7, 0.002);
  const std::string text = describe_timeline(spans);
  EXPECT_TRUE(text.starts_with("1 step, 7 to 7, of 2 ranks")) << text;
  EXPECT_TRUE(text.ends_with("no rank is late: their work differs by less than 5 %\n")) << text;
}

TEST(TimelineWords, reads_whatever_there_is) {
  for (const char* text : {"", "[]", "{}", R"({"traceEvents":5})", "\xff"})
    EXPECT_FALSE(parse_timeline(text)) << text;
  const auto odd = parse_timeline(
      R"({"traceEvents":[5,{"ph":5},{"ph":"X","ts":"x","pid":-1e300,"args":[]},{"ph":"M"}]})");
  ASSERT_TRUE(odd);
  EXPECT_EQ(odd->size(), 1U);
  EXPECT_EQ(describe_timeline(*odd), "no step is in this timeline\n");
}

}  // namespace
}  // namespace coxswain::report
