#include "trainer/ps/push_encoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/trainer/ps/whole.h"
#include "trainer/contract/error.h"

namespace coxswain::ps {
namespace {

constexpr compress::Codec kTwoBit{.kind = Compression::kTwoBit, .threshold = 1};

std::vector<std::byte> copy_of(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

// All blocks of a step, as they are pushed.
std::vector<std::vector<std::byte>> pushes(PushEncoder& encoder, const Plan& plan,
                                           const Floats& gradients) {
  std::vector<std::vector<std::byte>> all;
  for (const Piece& block : plan.map.cut(0, plan.layout.size()))
    all.push_back(copy_of(encoder.encode(
        block.offset, std::span(gradients).subspan(static_cast<std::size_t>(block.offset),
                                                   static_cast<std::size_t>(block.length)))));
  return all;
}

TEST(PushForm, says_statistics_and_the_control_segment_exactly) {
  const Plan plan = plan_of(2);
  const Floats& gradients = gradients_of(0, 0);
  for (const auto& [kind, word] : words_of(Compression{})) {
    if (kind == Compression::kNone) continue;
    SCOPED_TRACE(word);
    const compress::Codec codec{.kind = kind};
    const PushForm form(plan.layout, codec);
    PushEncoder encoder(plan, codec);
    const auto all = pushes(encoder, plan, gradients);
    const std::vector<Piece> blocks = plan.map.cut(0, plan.layout.size());
    Floats read(gradients.size(), 77);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const std::int64_t bytes = std::ssize(all[i]);
      EXPECT_EQ(form.bytes_of(blocks[i]), bytes);
      EXPECT_EQ(form.is_encoded(blocks[i], bytes), bytes != blocks[i].length * 4);
      EXPECT_FALSE(form.is_encoded(blocks[i], bytes + 1));
      EXPECT_FALSE(form.is_encoded(blocks[i], blocks[i].length * 4)) << "plain";
      form.decode(blocks[i], all[i],
                  std::span(read).subspan(static_cast<std::size_t>(blocks[i].offset),
                                          static_cast<std::size_t>(blocks[i].length)));
    }
    for (std::size_t i = 0; i < read.size(); ++i) {
      const bool is_gradient = i >= 48 && i < read.size() - tensor::kControlFloats;
      ASSERT_TRUE(is_gradient || read[i] == gradients[i]) << i;
      ASSERT_TRUE(std::isfinite(read[i]) && std::fabs(read[i]) < 10) << i;
    }
  }
}

TEST(PushEncoder, without_a_codec_pushes_the_memory_itself) {
  const Plan plan = plan_of(2);
  PushEncoder encoder(plan, {});
  const Floats& gradients = gradients_of(0, 0);
  const std::span<const float> block = std::span(gradients).first(16);
  EXPECT_EQ(encoder.encode(0, block).data(), std::as_bytes(block).data());
  EXPECT_TRUE(encoder.residuals().empty());
}

TEST(PushEncoder, pushes_what_was_left_with_later_steps) {
  const Plan plan = plan_of(1);
  PushEncoder encoder(plan, kTwoBit);
  Floats gradients(static_cast<std::size_t>(plan.layout.size()));
  gradients[100] = 0.4F;
  const auto nothing = pushes(encoder, plan, gradients);
  EXPECT_EQ(encoder.residuals()[100], 0) << "the step is not done";
  encoder.finish_step(true);
  EXPECT_EQ(encoder.residuals()[100], 0.4F);
  EXPECT_EQ(pushes(encoder, plan, gradients), nothing);
  encoder.finish_step(true);
  EXPECT_NE(pushes(encoder, plan, gradients), nothing) << "1.2 by now";
  encoder.finish_step(true);
  EXPECT_NEAR(encoder.residuals()[100], 0.2F, 1e-6);
}

TEST(PushEncoder, forgets_a_step_that_was_skipped) {
  const Plan plan = plan_of(1);
  PushEncoder encoder(plan, kTwoBit);
  pushes(encoder, plan, gradients_of(0, 0));
  encoder.finish_step(true);
  const Floats before(encoder.residuals().begin(), encoder.residuals().end());
  Floats bad = gradients_of(1, 0);
  bad[200] = INFINITY;
  pushes(encoder, plan, bad);
  encoder.finish_step(false);
  EXPECT_EQ(Floats(encoder.residuals().begin(), encoder.residuals().end()), before);
}

TEST(PushEncoder, pushes_all_that_was_left_before_it_is_exact) {
  const Plan plan = plan_of(1);
  PushEncoder encoder(plan, kTwoBit);
  const Floats& gradients = gradients_of(0, 0);
  pushes(encoder, plan, gradients);
  encoder.finish_step(true);
  const Floats left(encoder.residuals().begin(), encoder.residuals().end());
  encoder.push_exactly();
  for (const bool updated : {false, true}) {
    const auto all = pushes(encoder, plan, gradients);
    Floats read;
    for (const auto& block : all) {
      const auto* floats = reinterpret_cast<const float*>(block.data());
      read.insert(read.end(), floats, floats + block.size() / sizeof(float));
    }
    ASSERT_EQ(read.size(), gradients.size());
    for (std::size_t i = 0; i < read.size(); ++i) ASSERT_EQ(read[i], gradients[i] + left[i]) << i;
    encoder.finish_step(updated);
    EXPECT_EQ(encoder.residuals().empty(), updated) << "a step that was skipped has pushed nothing";
  }
  const std::span<const float> block = std::span(gradients).first(16);
  EXPECT_EQ(encoder.encode(0, block).data(), std::as_bytes(block).data());
}

}  // namespace
}  // namespace coxswain::ps
