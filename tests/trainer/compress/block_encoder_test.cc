#include "trainer/compress/block_encoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "trainer/contract/error.h"

namespace coxswain::compress {
namespace {

using Floats = std::vector<float>;

constexpr Codec kTwoBit{.kind = Compression::kTwoBit, .threshold = 1};
constexpr std::int64_t kBlock = 512;

tensor::ParameterLayout small_layout() {
  return tensor::pack(
      {{.name = "mean", .kind = tensor::SegmentKind::kStatistic, .dims = {40}, .stored = 48},
       {.name = "w", .dims = {5000}, .stored = 5008},
       {.name = "b", .kind = tensor::SegmentKind::kBias, .dims = {30}, .stored = 32}});
}

Floats gradients_of(unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Floats values(static_cast<std::size_t>(small_layout().size()));
  std::ranges::generate(values, [&] { return normal(random); });
  return values;
}

struct Block {
  std::int64_t offset, length;
};

std::vector<Block> blocks() {
  std::vector<Block> all;
  const std::int64_t size = small_layout().size();
  for (std::int64_t at = 0; at < size; at += kBlock)
    all.push_back({at, std::min(kBlock, size - at)});
  return all;
}

template <typename Float>
std::span<Float> part(std::span<Float> all, const Block& block) {
  return all.subspan(static_cast<std::size_t>(block.offset),
                     static_cast<std::size_t>(block.length));
}

BlockEncoder encoder_of(const Codec& codec) { return {small_layout(), kBlock, codec}; }

std::vector<std::byte> copy_of(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

// All blocks of a step, as they are sent.
std::vector<std::vector<std::byte>> pushes(BlockEncoder& encoder, const Floats& gradients) {
  std::vector<std::vector<std::byte>> all;
  for (const Block& block : blocks())
    all.push_back(copy_of(encoder.encode(block.offset, part(std::span(gradients), block))));
  return all;
}

TEST(BlockForm, says_statistics_and_the_control_segment_exactly) {
  const Floats gradients = gradients_of(0);
  for (const auto& [kind, word] : words_of(Compression{})) {
    if (kind == Compression::kNone) continue;
    SCOPED_TRACE(word);
    const Codec codec{.kind = kind};
    const BlockForm form(small_layout(), codec);
    BlockEncoder encoder = encoder_of(codec);
    const auto all = pushes(encoder, gradients);
    Floats read(gradients.size(), 77);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Block block = blocks()[i];
      EXPECT_EQ(form.bytes_of(block.offset, block.length), std::ssize(all[i]));
      form.decode(block.offset, all[i], part(std::span(read), block));
    }
    for (std::size_t i = 0; i < read.size(); ++i) {
      const bool is_gradient = i >= 48 && i < read.size() - tensor::kControlFloats;
      ASSERT_TRUE(is_gradient || read[i] == gradients[i]) << i;
      ASSERT_TRUE(std::isfinite(read[i]) && std::fabs(read[i]) < 10) << i;
    }
  }
}

TEST(BlockEncoder, without_a_codec_pushes_the_memory_itself) {
  BlockEncoder encoder = encoder_of({});
  const Floats gradients = gradients_of(0);
  const std::span<const float> block = std::span(gradients).first(16);
  EXPECT_EQ(encoder.encode(0, block).data(), std::as_bytes(block).data());
  EXPECT_TRUE(encoder.residuals().empty());
}

TEST(BlockEncoder, pushes_what_was_left_with_later_steps) {
  BlockEncoder encoder = encoder_of(kTwoBit);
  Floats gradients(static_cast<std::size_t>(small_layout().size()));
  gradients[100] = 0.4F;
  const auto nothing = pushes(encoder, gradients);
  EXPECT_EQ(encoder.residuals()[100], 0) << "the step is not done";
  encoder.finish_step(true);
  EXPECT_EQ(encoder.residuals()[100], 0.4F);
  EXPECT_EQ(pushes(encoder, gradients), nothing);
  encoder.finish_step(true);
  EXPECT_NE(pushes(encoder, gradients), nothing) << "1.2 by now";
  encoder.finish_step(true);
  EXPECT_NEAR(encoder.residuals()[100], 0.2F, 1e-6);
}

// 5,120 floats in 10 blocks: 0 to 3, 4 to 6 and 7 to 9.
TEST(BlockEncoder, sends_one_part_a_step_and_with_it_what_was_kept) {
  BlockEncoder encoder = encoder_of({.parts = 3});
  const Floats gradients(static_cast<std::size_t>(small_layout().size()), 1);
  const std::vector<std::vector<std::size_t>> senders = {{0, 1, 2, 3}, {4, 5, 6}, {7, 8, 9}};
  for (int step = 0; step < 6; ++step) {
    encoder.begin_step(step);
    const auto all = pushes(encoder, gradients);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Block block = blocks()[i];
      Floats read(static_cast<std::size_t>(block.length), 77);
      encoder.decode(block.offset, all[i], read);
      const auto& now = senders[static_cast<std::size_t>(step % 3)];
      const bool sends = std::ranges::find(now, i) != now.end();
      const auto turn = i < 4 ? 0 : i < 7 ? 1 : 2;
      const float kept = step < 3 ? static_cast<float>(turn + 1) : 3;
      EXPECT_EQ(read[100], sends ? kept : 0) << "step " << step << ", block " << i;
      EXPECT_EQ(all[i].size() > 1000, sends);
    }
    encoder.finish_step(true);
  }
  EXPECT_LT(encoder.bytes() * 5 / 2, encoder.plain_bytes());
}

TEST(BlockEncoder, tells_of_what_is_not_finite_out_of_turn_too) {
  BlockEncoder encoder = encoder_of({.parts = 3});
  encoder.begin_step(0);
  Floats gradients = gradients_of(0);
  const Block last = blocks()[9];
  gradients[static_cast<std::size_t>(last.offset)] = -INFINITY;
  const auto all = pushes(encoder, gradients);
  Floats read(static_cast<std::size_t>(last.length));
  encoder.decode(last.offset, all[9], read);
  EXPECT_TRUE(std::isnan(read[0]));
  auto odd = all[9];
  const float one = 1;
  std::memcpy(odd.data(), &one, sizeof one);
  EXPECT_THROW(encoder.decode(last.offset, odd, read), Error);
}

TEST(BlockEncoder, has_a_block_for_each_part) {
  EXPECT_NO_THROW(encoder_of({.parts = 10}));
  EXPECT_THROW(encoder_of({.parts = 11}), Error);
}

TEST(BlockEncoder, forgets_a_step_that_was_skipped) {
  BlockEncoder encoder = encoder_of(kTwoBit);
  pushes(encoder, gradients_of(0));
  encoder.finish_step(true);
  const Floats before(encoder.residuals().begin(), encoder.residuals().end());
  Floats bad = gradients_of(1);
  bad[200] = INFINITY;
  pushes(encoder, bad);
  encoder.finish_step(false);
  EXPECT_EQ(Floats(encoder.residuals().begin(), encoder.residuals().end()), before);
}

TEST(BlockEncoder, pushes_all_that_was_left_before_it_is_exact) {
  BlockEncoder encoder = encoder_of(kTwoBit);
  const Floats gradients = gradients_of(0);
  pushes(encoder, gradients);
  encoder.finish_step(true);
  const Floats left(encoder.residuals().begin(), encoder.residuals().end());
  encoder.push_exactly();
  for (const bool updated : {false, true}) {
    const auto all = pushes(encoder, gradients);
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
}  // namespace coxswain::compress
