#include "trainer/train/rank_pulse.h"

#include <gtest/gtest.h>

namespace coxswain::train {
namespace {

struct Time {
  RankPulse::Clock::time_point now;
  void pass(double seconds) {
    now += std::chrono::duration_cast<RankPulse::Clock::duration>(
        std::chrono::duration<double>(seconds));
  }
};

TEST(RankPulse, speaks_in_its_turn_and_once_a_second) {
  Time time;
  RankPulse pulse({1, 4}, [&] { return time.now; }, [] { return std::int64_t{3} << 20; });
  time.pass(0.5);
  EXPECT_EQ(pulse.take(1, 10, 0).rank, -1) << "too early";
  time.pass(1);
  EXPECT_EQ(pulse.take(4, 60, 0.1).rank, -1) << "another's turn";
  const backend::RankFigures first = pulse.take(5, 64, 0.25);
  EXPECT_EQ(first, (backend::RankFigures{1, 1.5, 64, 0.25, 0, 3}));
  time.pass(2);
  EXPECT_EQ(pulse.take(9, 100, 0.5), (backend::RankFigures{1, 2, 36, 0.25, 0, 3}));
}

TEST(RankPulse, what_a_rank_says_goes_through_the_sums) {
  const backend::RankFigures said{4095, 1.5, 64, 0.25, 0.5, 3};
  backend::ControlFloats sums = backend::to_control(true, 1, false, false, said);
  const backend::ControlFloats silent = backend::to_control(false, 2);
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += silent[i];
  const backend::ControlSums read = backend::read_control(sums);
  EXPECT_EQ(read.figures, said);
  EXPECT_EQ(read.stop_requests, 1);
  EXPECT_EQ(read.seconds_waiting, 3);
  EXPECT_EQ(backend::read_control(silent).figures.rank, -1);
  EXPECT_GT(resident_bytes(), 1 << 20);
}

}  // namespace
}  // namespace coxswain::train
