#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/trainer/train/checkpoint_helper.h"
#include "tests/trainer/train/training_fixture.h"
#include "trainer/tensor/host_span.h"

// Sums over ranks whose gradients travel in fewer bytes (tests/trainer/comm/coded_sum_test.cc: the
// sums themselves). run() sees to it that all ranks have the same bits.
namespace coxswain::train {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr compress::Codec kFp16{.kind = Compression::kFp16};
constexpr compress::Codec kBf16{.kind = Compression::kBf16};
constexpr compress::Codec kTopK{.kind = Compression::kTopK, .ratio = 0.1};
constexpr compress::Codec kPartial{.parts = 4};
constexpr compress::Codec kPartialHalves{.kind = Compression::kFp16, .parts = 2};

World ranks(int size) { return {.size = size, .training = &small_images()}; }

TrainOptions with(const compress::Codec& codec) {
  TrainOptions options = mlp_options();
  options.codec = codec;
  return options;
}

TEST(CodedSums, train_nearly_as_exact_ones_and_twice_the_same) {
  for (const int size : {2, 3}) {
    const Outcome exactly = run(mlp_options(), ranks(size));
    for (const auto& [codec, distance] : {std::pair(kFp16, 1e-3), {kBf16, 0.05}, {kTopK, 0.5}}) {
      SCOPED_TRACE(fmt::format("{} ranks, {}", size, describe(codec)));
      const Outcome coded = run(with(codec), ranks(size));
      EXPECT_THAT(coded.told.notes(),
                  HasSubstr(fmt::format("gradients are sent as {}", describe(codec))));
      EXPECT_NE(difference(coded.weights, exactly.weights), "");
      EXPECT_LT(relative_distance(exactly.weights, coded.weights), distance);
      EXPECT_EQ(difference(run(with(codec), ranks(size)).weights, coded.weights), "");
    }
  }
}

// The model has five blocks.
TEST(CodedSums, of_a_part_a_step_train_all_of_them) {
  const auto images = data::make_synthetic({1, 1, 6, 6}, 4, 24, 7);
  TrainOptions options = mlp_options();
  options.model = Model::kCifarResnet8;
  const World world = {.size = 2, .training = images.get()};
  const Outcome exactly = run(options, world);
  for (const auto& codec : {kPartial, kPartialHalves}) {
    SCOPED_TRACE(describe(codec));
    options.codec = codec;
    const Outcome coded = run(options, world);
    EXPECT_THAT(coded.told.notes(),
                HasSubstr(fmt::format("gradients are sent as {}", describe(codec))));
    EXPECT_LT(relative_distance(exactly.weights, coded.weights), 0.5);
    EXPECT_EQ(difference(run(options, world).weights, coded.weights), "");
  }
}

TEST(CodedSums, of_more_parts_than_blocks_are_refused) {
  for (const Outcome& outcome : run_ranks(with(kPartial), ranks(2)))
    EXPECT_THAT(outcome.error,
                HasSubstr("communication.partial: 4 parts, but this model is sent in blocks of "
                          "65536 bytes, of which it has 1: write at most that"));
}

// Blocks are of one length, however buckets are cut.
TEST(CodedSums, do_not_depend_on_buckets) {
  const auto images = data::make_synthetic({1, 1, 6, 6}, 4, 24, 7);
  TrainOptions options = with(kTopK);
  options.model = Model::kCifarResnet8;
  options.epochs = 1;
  const World world = {.size = 2, .training = images.get()};
  const Outcome whole = run(options, world);
  for (const std::int64_t bytes : {4096, 65536, 100000}) {
    options.bucket_bytes = bytes;
    EXPECT_EQ(difference(run(options, world).weights, whole.weights), "") << bytes;
  }
}

TEST(CodedSums, of_one_rank_are_exact) {
  const Outcome exactly = run(mlp_options(), ranks(1));
  const Outcome coded = run(with(kTopK), ranks(1));
  EXPECT_EQ(difference(coded.weights, exactly.weights), "");
  EXPECT_EQ(coded.told.notes(),
            "one rank sends nothing: communication.compression changes nothing");
}

TEST(CodedSums, skip_a_step_that_is_not_finite_on_one_rank) {
  for (const auto& codec : {kFp16, kTopK}) {
    World world = ranks(3);
    world.hooks = [](int rank, std::atomic<bool>&, test::ThreadNetwork&) {
      Hooks hooks;
      if (rank != 1) return hooks;
      hooks.after_gradient = [](std::int64_t pass, backend::Parameters& parameters, int) {
        if (pass == 3)
          tensor::host_span(parameters.gradients())[20] = std::numeric_limits<float>::infinity();
      };
      return hooks;
    };
    const Outcome outcome = run(with(codec), world);
    EXPECT_EQ(outcome.updates, 23) << word(codec.kind);
    EXPECT_TRUE(std::ranges::all_of(outcome.weights, [](float w) { return std::isfinite(w); }));
  }
}

TEST(CodedSums, go_on_with_what_was_left_out_on_another_number_of_ranks) {
  for (const auto& [before, after] : {std::pair(3, 2), {2, 3}, {2, 1}, {1, 2}}) {
    SCOPED_TRACE(fmt::format("{} ranks, then {}", before, after));
    const CheckpointDirectory directory;
    TrainOptions options = with(kTopK);
    options.checkpoint.directory = directory.path();
    World stopped = ranks(before);
    stopped.hooks = stop_after(0, 5);
    EXPECT_EQ(run(options, stopped).result, Result::kSaved);
    const Outcome resumed = run(options, ranks(after));
    EXPECT_THAT(resumed.told.notes(), HasSubstr("continues not bit for bit"));
    EXPECT_EQ(resumed.result, Result::kSucceeded);
  }
}

// A checkpoint of sums as exact as a server's goes on bit for bit under another strategy; these
// not.
TEST(CodedSums, are_told_from_others_in_a_checkpoint) {
  const CheckpointDirectory directory;
  TrainOptions options = with(kFp16);
  options.checkpoint.directory = directory.path();
  run(options, ranks(2));
  EXPECT_THAT(newest(directory.path()).state.fingerprint, ::testing::EndsWith(" sums=coded"));
}

// Sums on the network of these threads take next to nothing; the choice of k takes its time.
TEST(CodedSums, are_given_up_where_they_do_not_pay_if_nobody_counts_on_the_bits) {
  TrainOptions options = with(kTopK);
  const std::string left = "gradients are sent exactly from now on";
  for (const bool fixed : {true, false}) {
    const CheckpointDirectory directory;
    options.checkpoint.directory = directory.path();
    options.fixed_order = fixed;
    options.epochs = 4;
    const Outcome first = run(options, ranks(2));
    const std::string warnings = fmt::format("{}", fmt::join(first.told.warnings, "\n"));
    if (warnings.find("does not pay") == std::string::npos) GTEST_SKIP() << "a slow network";
    EXPECT_EQ(warnings.find(left) != std::string::npos, !fixed);
    EXPECT_EQ(newest(directory.path()).state.pushes_exactly, !fixed);
    options.epochs = 5;
    const Outcome second = run(options, ranks(2));
    const auto stays = HasSubstr("did not pay: gradients are still sent exactly");
    if (fixed)
      EXPECT_THAT(second.told.notes(), Not(stays));
    else
      EXPECT_THAT(second.told.notes(), stays);
  }
}

}  // namespace
}  // namespace coxswain::train
