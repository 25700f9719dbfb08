#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/train/checkpoint_helper.h"
#include "tests/trainer/train/training_fixture.h"

namespace coxswain::train {
namespace {

using ::testing::HasSubstr;

// One way to train whose resume from every step is tried.
struct ResumedCase {
  std::string name;
  TrainOptions options;
  int ranks = 1;
  const data::Dataset* images = nullptr;
  std::int64_t steps = 0;  // of the whole run
  std::vector<std::int64_t> leave_once_after;
  std::string note = "";  // of every start
};

TrainOptions small_batches(Model model) {  // 4 steps an epoch, the last one short
  TrainOptions options = mlp_options();
  options.model = model;
  options.batch_size = 4;
  return options;
}

TrainOptions augmented() {
  TrainOptions options = mlp_options();
  options.preprocessing = {augment::PadCrop{.pad = 1}, augment::Flip{}};
  options.schedule.kind = ScheduleKind::kCosine;
  options.schedule.warmup_epochs = 0.5;
  return options;
}

TrainOptions adam() {
  TrainOptions options = augmented();
  options.rule.kind = OptimizerKind::kAdam;
  options.schedule.lr = 0.001F;
  return options;
}

TrainOptions nesterov(Split split, LastBatch last) {
  TrainOptions options = augmented();
  options.rule.kind = OptimizerKind::kNesterov;
  options.accumulate = 2;
  options.split = split;
  options.last_batch = last;
  return options;
}

// What the undisturbed run ends with.
struct End {
  Outcome outcome;
  checkpoint::Contents saved;
};

void expect_same_end(const Outcome& resumed, const std::filesystem::path& directory,
                     const End& end) {
  EXPECT_EQ(resumed.result, Result::kSucceeded);
  EXPECT_EQ(difference(resumed.weights, end.outcome.weights), "");
  EXPECT_EQ(difference(resumed.slots, end.outcome.slots), "");
  expect_equal(newest(directory), end.saved);
  EXPECT_EQ(resumed.told.epochs.back().training_loss, end.outcome.told.epochs.back().training_loss);
  EXPECT_EQ(resumed.told.finished[0].accuracy, end.outcome.told.finished[0].accuracy);
}

// Every step in a process of its own.
void leave_after_every_step(const ResumedCase& c, const World& world, const End& end) {
  const CheckpointDirectory directory;
  TrainOptions options = c.options;
  options.checkpoint.directory = directory.path();
  World stopped = world;
  stopped.hooks = stop_after(0, 0);
  for (std::int64_t step = 1; step <= c.steps; ++step) {
    SCOPED_TRACE(fmt::format("step {} of {}", step, c.steps));
    const Outcome link = run(options, stopped);
    ASSERT_EQ(link.updates, 1);
    const std::string resumed =
        step == 1 ? "" : fmt::format("resumed after step {}: continues bit for bit", step - 1);
    EXPECT_EQ(link.told.notes(),
              resumed + (resumed.empty() || c.note.empty() ? "" : "\n") + c.note);
    if (step == c.steps) return expect_same_end(link, directory.path(), end);
    ASSERT_EQ(link.result, Result::kSaved);
  }
}

// One process up to a step, another one from there to the end.
void leave_once(const ResumedCase& c, const World& world, const End& end) {
  for (const std::int64_t step : c.leave_once_after) {
    SCOPED_TRACE(fmt::format("resumed after step {} of {}", step, c.steps));
    const CheckpointDirectory directory;
    TrainOptions options = c.options;
    options.checkpoint.directory = directory.path();
    World stopped = world;
    stopped.hooks = stop_after(0, step - 1);
    EXPECT_EQ(run(options, stopped).result, Result::kSaved);
    EXPECT_EQ(saved_in(directory.path()),
              std::set<std::string>{fmt::format("step-{:08}.g1", step)});
    const Outcome resumed = run(options, world);
    EXPECT_EQ(resumed.updates, c.steps - step);
    expect_same_end(resumed, directory.path(), end);
  }
}

void expect_same_end_from_every_step(const ResumedCase& c) {
  SCOPED_TRACE(c.name);
  const World world = {
      .size = c.ranks, .training = c.images, .test = c.images, .on_rank_0_alone = true};
  const CheckpointDirectory directory;
  TrainOptions options = c.options;
  options.checkpoint.directory = directory.path();
  End end = {run(options, world), {}};
  ASSERT_EQ(end.outcome.updates, c.steps);
  end.saved = newest(directory.path());
  leave_after_every_step(c, world, end);
  leave_once(c, world, end);
}

TEST(ResumedRun, ends_with_the_same_bits_from_every_step) {
  const data::Dataset& images = small_images();
  expect_same_end_from_every_step({"adam on one rank", adam(), 1, &images, 24, {1, 7, 8, 23}});
  expect_same_end_from_every_step({"nesterov on two ranks",
                                   nesterov(Split::kShuffle, LastBatch::kKeep),
                                   2,
                                   &images,
                                   24,
                                   {9, 16}});
}

TEST(ResumedRun, ends_with_the_same_bits_with_batch_norm_and_dropout) {
  const auto images = data::make_synthetic({1, 1, 6, 6}, 4, 14, 7);
  expect_same_end_from_every_step(
      {"batch norm on two ranks", small_batches(Model::kCifarResnet8), 2, images.get(), 12, {3}});
  expect_same_end_from_every_step(
      {"dropout on one rank", small_batches(Model::kKerasCnn), 1, images.get(), 12, {6}});
}

TEST(ResumedRun, ends_with_the_same_bits_for_every_split) {
  const auto images = data::make_synthetic({1, 1, 6, 6}, 4, 30, 7);
  expect_same_end_from_every_step(
      {"contiguous", nesterov(Split::kContiguous, LastBatch::kDiscard), 2, images.get(), 9, {4}});
  expect_same_end_from_every_step(
      {"split-batch", nesterov(Split::kSplitBatch, LastBatch::kKeep), 2, images.get(), 12, {5}});
  // 90 rows in three epochs of 30: 3, 4 and 4 batches of 8.
  expect_same_end_from_every_step(
      {"rollover", nesterov(Split::kShuffle, LastBatch::kRollover), 2, images.get(), 11, {3, 5}});
}

TEST(ResumedRun, ends_with_the_same_bits_with_a_codec) {
  const auto images = data::make_synthetic({1, 1, 6, 6}, 4, 14, 7);
  TrainOptions options = small_batches(Model::kCifarResnet8);
  options.codec = {.kind = Compression::kTopK, .ratio = 0.02};
  expect_same_end_from_every_step(
      {"topk on three ranks",
       options,
       3,
       images.get(),
       12,
       {3},
       "gradients are sent as topk, ratio 0.02: 14520 bytes a step instead of 311936"});
  options.codec = {.kind = Compression::kBf16, .parts = 2};
  expect_same_end_from_every_step({"parts of halves",
                                   options,
                                   2,
                                   images.get(),
                                   12,
                                   {3},
                                   "gradients are sent as bf16, one of 2 parts a step: 79578 bytes "
                                   "a step instead of 311936"});
}

TEST(ResumedRun, ends_with_the_same_bits_on_another_number_of_ranks_under_any_world_size) {
  TrainOptions options = small_batches(Model::kCifarResnet8);
  options.virtual_shards = 8;
  options.batch_size = 6;
  const auto images = data::make_synthetic({1, 3, 4, 4}, 4, 20, 7);
  const Outcome undisturbed = run(options, {1, images.get(), images.get()});
  for (const auto& [before, after] : {std::pair{1, 3}, {3, 8}, {2, 1}, {8, 4}}) {
    SCOPED_TRACE(fmt::format("{} ranks, then {}", before, after));
    const CheckpointDirectory directory;
    options.checkpoint.directory = directory.path();
    World world = {before, images.get(), images.get(), stop_after(before - 1, 5)};
    EXPECT_EQ(run(options, world).result, Result::kSaved);
    const Outcome resumed = run(options, {after, images.get(), images.get()});
    EXPECT_THAT(resumed.told.notes(), HasSubstr("continues bit for bit"));
    EXPECT_EQ(difference(resumed.weights, undisturbed.weights), "");
    EXPECT_EQ(difference(resumed.slots, undisturbed.slots), "");
    EXPECT_EQ(resumed.told.finished[0].loss, undisturbed.told.finished[0].loss);
  }
}

TEST(ResumedRun, starts_the_next_epoch_anew_where_the_split_depends_on_the_ranks) {
  const CheckpointDirectory directory;
  TrainOptions options = nesterov(Split::kContiguous, LastBatch::kDiscard);
  options.checkpoint.directory = directory.path();
  run(options, {.size = 2, .training = &small_images(), .hooks = stop_after(0, 8)});
  ASSERT_EQ(newest(directory.path()).state.epoch, 1);
  const Outcome resumed = run(options, {.size = 3, .training = &small_images()});
  EXPECT_EQ(resumed.result, Result::kSucceeded);
  ASSERT_EQ(resumed.told.epochs.size(), 1U);
  EXPECT_EQ(resumed.told.epochs[0].epoch, 3);
  // The mean over the rows of this epoch alone.
  double loss = 0;
  for (const StepReport& step : resumed.told.steps) loss += step.loss;
  EXPECT_NEAR(resumed.told.epochs[0].training_loss,
              loss / static_cast<double>(resumed.told.steps.size()), 1e-6);
}

}  // namespace
}  // namespace coxswain::train
