#include "trainer/train/push_judge.h"

#include <gtest/gtest.h>

namespace coxswain::train {
namespace {

constexpr compress::Codec kTwoBit{.kind = Compression::kTwoBit, .threshold = 0.01F};
constexpr compress::Codec kTopK{.kind = Compression::kTopK, .ratio = 0.05};

TEST(PushJudge, says_what_is_pushed) {
  EXPECT_EQ(note_of(kTwoBit, 100, 1600),
            "gradients are pushed as 2bit, threshold 0.01: 100 bytes a step instead of 1600");
  EXPECT_EQ(describe(kTopK), "topk, ratio 0.05");
  EXPECT_EQ(describe({.kind = Compression::kBf16}), "bf16");
}

TEST(PushJudge, says_what_does_not_pay_and_what_becomes_of_it) {
  const compress::Balance balance{.taken = 0.0031, .spared = 0.0012};
  const std::string why =
      "communication.compression topk does not pay here: of a step it takes 3.10 ms and spares "
      "1.20 ms on the network: ";
  EXPECT_EQ(warning_of(kTopK, balance, false), why + "write none");
  EXPECT_EQ(warning_of(kTopK, balance, true), why + "pushes are exact from now on");
}

TEST(PushJudge, says_what_leaves_out_too_much) {
  EXPECT_EQ(warning_of(kTwoBit, 72),
            "what 2bit, threshold 0.01 leaves out keeps growing up to step 72, and is many times a "
            "step's gradients: lower communication.compressionThreshold");
  EXPECT_EQ(warning_of(kTopK, 72),
            "what topk, ratio 0.05 leaves out keeps growing up to step 72, and is many times a "
            "step's gradients: write another communication.compression, or lower optimizer.lr");
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
