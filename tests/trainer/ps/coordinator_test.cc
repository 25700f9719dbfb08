#include "trainer/ps/coordinator.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "trainer/contract/error.h"

namespace coxswain::ps {
namespace {

// Server 0 without connections; what it says, in words.
class Talk : private CoordinatorOutbox {
 public:
  explicit Talk(std::optional<std::int64_t> staleness = std::nullopt)
      : coordinator_(staleness, *this) {
    coordinator_.begin(10);
  }

  Coordinator* operator->() { return &coordinator_; }
  std::string heard() { return std::exchange(heard_, ""); }

 private:
  void lease(int worker, std::int64_t step) override {
    heard_ += fmt::format("{} computes {}. ", worker, step);
  }
  void held(int worker, int by) override { heard_ += fmt::format("{} waits for {}. ", worker, by); }
  void cut(int fence, std::int64_t step, bool stop) override {
    heard_ += fmt::format("cut {} at {}{}. ", fence, step, stop ? ", stop" : "");
  }
  void standing(int worker, int fences) override {
    heard_ += fmt::format("{}: {} fences. ", worker, fences);
  }
  void end(int worker, bool saved) override {
    heard_ += fmt::format("end for {}{}. ", worker, saved ? ", saved" : "");
  }

  std::string heard_;
  Coordinator coordinator_;
};

constexpr StepSums kSums{.samples = 8, .loss = 4, .correct = 6};
constexpr StepSums kSkipped{.skipped = 1};

TEST(Coordinator, leases_up_to_the_fence_and_tells_of_the_cut) {
  Talk talk;
  talk->joined(0);
  EXPECT_EQ(talk.heard(), "0: 0 fences. ");
  talk->asks_lease(1);
  EXPECT_EQ(talk.heard(), "") << "before there is a fence";
  talk->set_fence(1, 12, "note");
  talk->asks_lease(0);
  talk->asks_lease(0);
  EXPECT_EQ(talk.heard(), "1 computes 10. 0 computes 11. ");
  talk->done(0, 11, kSums, 3);
  talk->done(1, 10, kSums, 1);
  EXPECT_EQ(talk.heard(), "cut 1 at 12. ");
  EXPECT_EQ(talk->totals(), (Totals{.steps = 2,
                                    .most_staleness = 3,
                                    .staleness = 4,
                                    .samples = 16,
                                    .loss = 8,
                                    .correct = 12}));
  talk->set_fence(2, 20, "note");
  EXPECT_EQ(talk.heard(), "0 computes 12. ") << "it has asked already";
  EXPECT_EQ(talk->totals(), Totals());
}

TEST(Coordinator, changes_nothing_by_what_is_said_again) {
  Talk talk;
  talk->set_fence(1, 11, "note");
  talk->asks_lease(0);
  talk->done(0, 10, kSums, 0);
  talk->done(1, 10, kSums, 0);
  EXPECT_EQ(talk->totals().steps, 1);
  talk.heard();
  talk->set_fence(1, 11, "another");
  EXPECT_EQ(talk->note(), "note");
  EXPECT_EQ(talk->totals().steps, 1);
  talk->joined(0);
  EXPECT_EQ(talk.heard(), "0: 1 fences. cut 1 at 11. ") << "worker 0's successor goes on from it";
}

TEST(Coordinator, cuts_behind_what_was_leased_and_remembers_a_wish_to_stop) {
  Talk talk;
  talk->cut_now(true);
  EXPECT_EQ(talk.heard(), "");
  talk->set_fence(1, 100, "note");
  EXPECT_EQ(talk.heard(), "cut 1 at 10, stop. ") << "it came before the first step";
  Talk other;
  other->set_fence(1, 100, "note");
  other->asks_lease(1);
  other->cut_now(false);
  other->asks_lease(0);
  EXPECT_EQ(other.heard(), "1 computes 10. ");
  other->done(1, 10, kSums, 0);
  EXPECT_EQ(other.heard(), "cut 1 at 11. ");
}

TEST(Coordinator, counts_steps_that_were_skipped_in_a_row_beyond_a_fence) {
  Talk talk;
  talk->set_fence(1, 11, "note");
  talk->asks_lease(0);
  talk->done(0, 10, kSkipped, 7);
  EXPECT_EQ(talk->totals(), (Totals{.steps = 1, .skipped = 1, .skipped_in_a_row = 1}));
  talk->set_fence(2, 13, "note");
  talk->asks_lease(0);
  talk->asks_lease(0);
  talk->done(0, 11, kSkipped, 0);
  EXPECT_EQ(talk->totals().skipped_in_a_row, 2);
  talk->done(0, 12, kSums, 0);
  EXPECT_EQ(talk->totals().skipped_in_a_row, 0);
}

TEST(Coordinator, tells_once_whom_a_worker_waits_for) {
  Talk talk(0);
  talk->set_fence(1, 100, "note");
  talk->asks_lease(0);
  talk->asks_lease(1);
  talk->asks_lease(0);
  EXPECT_EQ(talk.heard(), "0 computes 10. 1 computes 11. ") << "it has a step to make";
  talk->done(0, 10, kSums, 0);
  talk->asks_lease(0);
  EXPECT_EQ(talk.heard(), "0 waits for 1. ");
  talk->left(1);
  EXPECT_EQ(talk.heard(), "0 computes 11. ") << "that of the one that left";
}

TEST(Coordinator, goes_on_from_its_minutes) {
  Talk talk;
  talk->set_fence(1, 14, "note");
  for (const int worker : {0, 1, 0, 1}) talk->asks_lease(worker);
  talk->done(1, 11, kSums, 2);
  const Minutes minutes = talk->minutes();
  EXPECT_EQ(decode_minutes(encode(minutes)), minutes);
  Talk back;
  back->restore(minutes);
  EXPECT_EQ(back->minutes(), minutes);
  EXPECT_EQ(back->note(), "note");
  for (const int worker : {0, 1, 1}) back->asks_lease(worker);
  EXPECT_EQ(back.heard(), "0 computes 10. 1 computes 12. 1 computes 13. ");
  back->done(1, 11, kSums, 0);
  for (const int step : {10, 12, 13}) back->done(0, step, kSums, 0);
  EXPECT_EQ(back.heard(), "cut 1 at 14. ");
  EXPECT_EQ(back->totals().steps, 4) << "one was done before";
  Talk cut;
  cut->restore(back->minutes());
  cut->joined(0);
  EXPECT_EQ(cut.heard(), "0: 1 fences. cut 1 at 14. ");
}

TEST(Coordinator, has_short_minutes_however_far_the_slowest_is_behind) {
  Minutes minutes;
  minutes.done = StepSet(10);
  for (std::int64_t step = 11; step < 100'000; ++step)
    if (step != 500) minutes.done.insert(step);
  minutes.next = 100'001;
  const Bytes bytes = encode(minutes);
  EXPECT_LT(bytes.size(), 200U);
  EXPECT_EQ(decode_minutes(bytes), minutes);
  EXPECT_EQ(minutes.done.size(), 99'998);
}

TEST(Coordinator, refuses_minutes_that_it_never_wrote) {
  Minutes minutes;
  minutes.done = StepSet(2);
  minutes.done.insert(4);
  minutes.next = 5;
  const Bytes good = encode(minutes);
  for (std::size_t length = 0; length < good.size(); ++length)
    EXPECT_THROW(decode_minutes(std::span(good).first(length)), Error) << length;
  for (const std::int64_t next : {std::int64_t{1}, std::int64_t{1} << 40}) {
    minutes.next = next;
    EXPECT_THROW(decode_minutes(encode(minutes)), Error) << next;
  }
}

TEST(Coordinator, ends_for_all_who_ask) {
  Talk talk;
  talk->set_fence(1, 11, "note");
  talk->asks_lease(0);
  talk->done(0, 10, kSums, 0);
  EXPECT_TRUE(talk->needs_leader());
  talk->asks_lease(1);
  talk.heard();
  talk->end(false);
  EXPECT_EQ(talk.heard(), "end for 0. end for 1. ");
  EXPECT_FALSE(talk->needs_leader());
  talk->asks_lease(2);
  talk->joined(3);
  EXPECT_EQ(talk.heard(), "end for 2. end for 3. ");
}

}  // namespace
}  // namespace coxswain::ps
