#include "trainer/train/push_judge.h"

#include <gtest/gtest.h>

namespace coxswain::train {
namespace {

constexpr compress::Codec kTwoBit{.kind = Compression::kTwoBit, .threshold = 0.01F};
constexpr compress::Codec kJudgedTopK{.kind = Compression::kTopK, .ratio = 0.05};

TEST(PushJudge, says_what_is_pushed) {
  EXPECT_EQ(note_of(kTwoBit, 100, 1600),
            "gradients are sent as 2bit, threshold 0.01: 100 bytes a step instead of 1600");
  EXPECT_EQ(describe(kJudgedTopK), "topk, ratio 0.05");
  EXPECT_EQ(describe({.kind = Compression::kBf16}), "bf16");
}

TEST(PushJudge, says_what_does_not_pay_and_what_becomes_of_it) {
  const compress::Balance balance{.taken = 0.0031, .spared = 0.0012};
  const std::string why =
      "communication.compression topk does not pay here: of a step it takes 3.10 ms and spares "
      "1.20 ms on the network: ";
  EXPECT_EQ(warning_of(kJudgedTopK, balance, false), why + "write none");
  EXPECT_EQ(warning_of(kJudgedTopK, balance, true), why + "gradients are sent exactly from now on");
}

TEST(PushJudge, says_what_leaves_out_too_much) {
  EXPECT_EQ(warning_of(kTwoBit, 72),
            "what 2bit, threshold 0.01 leaves out keeps growing up to step 72, and is many times a "
            "step's gradients: lower communication.compressionThreshold");
  EXPECT_EQ(warning_of(kJudgedTopK, 72),
            "what topk, ratio 0.05 leaves out keeps growing up to step 72, and is many times a "
            "step's gradients: write another communication.compression, or lower optimizer.lr");
}

// Steps 3 to 22 of a start are measured: coding takes 3 ms, and the network would have taken less.
TEST(PushJudge, measures_some_steps_and_gives_up_what_does_not_pay_if_it_may) {
  for (const bool may_leave : {false, true})
    for (const double network_seconds : {0.001, 10.0}) {
      PushJudge judge(kJudgedTopK, may_leave);
      std::vector<std::int64_t> measured, warned, left;
      for (std::int64_t step = 101; step <= 140; ++step) {
        if (judge.measures()) measured.push_back(step);
        const auto opinion =
            judge.after(step, {.measured =
                                   [&] {
                                     return compress::Measured{.steps = 20,
                                                               .encode_seconds = 0.06,
                                                               .bytes_spared = 20'000'000,
                                                               .network_bytes = 1'000'000,
                                                               .network_seconds = network_seconds};
                                   },
                               .residuals = [] { return 1.0; },
                               .gradients = [] { return 1.0; }});
        if (!opinion.warning.empty()) warned.push_back(step);
        if (opinion.leaves) left.push_back(step);
      }
      EXPECT_EQ(measured.size(), 20U);
      EXPECT_EQ(measured.front(), 103);
      const bool pays = network_seconds > 1;
      EXPECT_EQ(warned, pays ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{122});
      EXPECT_EQ(left, may_leave ? warned : std::vector<std::int64_t>{});
    }
}

TEST(PushJudge, warns_once_of_what_piles_up) {
  PushJudge judge(kTwoBit, true);
  std::vector<std::int64_t> warned;
  for (std::int64_t step = 1; step <= 200; ++step) {
    const auto opinion =
        judge.after(step, {.measured = [] { return compress::Measured{}; },
                           .residuals = [&] { return 10.0 * static_cast<double>(step); },
                           .gradients = [] { return 1.0; }});
    EXPECT_FALSE(opinion.leaves);
    if (!opinion.warning.empty()) warned.push_back(step);
  }
  EXPECT_EQ(warned.size(), 1U);
}

TEST(PushJudge, measures_what_is_trained_alone) {
  const auto layout = tensor::pack(
      {{.name = "mean", .kind = tensor::SegmentKind::kStatistic, .dims = {16}, .stored = 16},
       {.name = "w", .dims = {16}, .stored = 16}});
  std::vector<float> flat(static_cast<std::size_t>(layout.size()), 100);
  std::fill(flat.begin() + 16, flat.begin() + 32, 0.0F);
  flat[16] = 3;
  flat[31] = -4;
  EXPECT_DOUBLE_EQ(norm_of(layout, flat), 5);
}

}  // namespace
}  // namespace coxswain::train
