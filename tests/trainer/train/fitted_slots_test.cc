#include "trainer/train/fitted_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/train/checkpoint_helper.h"
#include "tests/trainer/train/training_fixture.h"

namespace coxswain::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const World kTwoRanks{
    .size = 2, .training = &small_images(), .test = &small_test_images(), .on_rank_0_alone = true};

TrainOptions plain() {
  TrainOptions options = mlp_options();
  options.schedule.momentum = 0;
  options.trajectory = {{"optimizer.momentum", "0"}, {"ema.decay", "0"}};
  return options;
}

TrainOptions with_momentum(TrainOptions options) {
  options.schedule.momentum = 0.9F;
  options.trajectory["optimizer.momentum"] = "0.9";
  return options;
}

TrainOptions averaging(TrainOptions options) {
  options.rule.ema_decay = 0.5F;
  options.trajectory["ema.decay"] = "0.5";
  return options;
}

// `first` up to a step, `rest` from there on.
Outcome run_both(const TrainOptions& first, TrainOptions rest) {
  constexpr std::int64_t kAfter = 5;
  const CheckpointDirectory directory;
  TrainOptions begun = first;
  begun.checkpoint.directory = rest.checkpoint.directory = directory.path();
  World stopped = kTwoRanks;
  stopped.hooks = stop_after(0, kAfter - 1);
  EXPECT_EQ(run(begun, stopped).result, Result::kSaved);
  return run(rest, kTwoRanks);
}

TEST(FittedSlots, momentum_begins_at_zero_in_the_middle_of_a_run) {
  TrainOptions to_the_next_step = plain();
  to_the_next_step.steps = 6;
  const Outcome without = run(to_the_next_step, kTwoRanks);
  const Outcome resumed = run_both(plain(), with_momentum(to_the_next_step));
  EXPECT_THAT(resumed.told.notes(),
              AllOf(HasSubstr("momentum_buffer begins anew"), HasSubstr("not bit for bit")));
  // The first step of a velocity is that of no momentum.
  EXPECT_EQ(difference(without.weights, resumed.weights), "");

  const Outcome to_the_end = run_both(plain(), with_momentum(plain()));
  EXPECT_NE(difference(run(plain(), kTwoRanks).weights, to_the_end.weights), "");
}

TEST(FittedSlots, averages_begin_as_the_weights_that_were_saved) {
  TrainOptions to_the_next_step = plain();
  to_the_next_step.steps = 6;
  const Outcome resumed = run_both(plain(), averaging(to_the_next_step));
  EXPECT_THAT(resumed.told.notes(), HasSubstr("ema begins anew"));
  EXPECT_EQ(difference(run(to_the_next_step, kTwoRanks).weights, resumed.weights), "");
  TrainOptions until_saved = to_the_next_step;
  until_saved.steps = 5;
  const Outcome saved = run(until_saved, kTwoRanks);
  ASSERT_EQ(resumed.slots.size(), resumed.weights.size());
  for (std::size_t i = 0; i < resumed.slots.size(); ++i)
    ASSERT_NEAR(resumed.slots[i], (saved.weights[i] + resumed.weights[i]) / 2, 1e-6) << i;
}

TEST(FittedSlots, go_where_they_are_kept_no_more_and_the_others_stay) {
  TrainOptions without = averaging(plain());
  without.schedule.momentum = 0;
  const Outcome resumed = run_both(averaging(with_momentum(plain())), without);
  EXPECT_THAT(resumed.told.notes(), AllOf(HasSubstr("keeps no momentum_buffer any more"),
                                          Not(HasSubstr("ema begins anew"))));
  EXPECT_EQ(resumed.slots.size(), resumed.weights.size());
}

TEST(FittedSlots, leave_what_is_there_in_part_to_be_refused) {
  const CheckpointDirectory directory;
  TrainOptions options = with_momentum(plain());
  options.checkpoint.directory = directory.path();
  options.steps = 1;
  run(options, kTwoRanks);
  checkpoint::Contents contents = newest(directory.path());
  contents.optimizer.pop_back();
  const checkpoint::Contents saved = contents;
  tensor::ParameterLayout layout;
  for (const checkpoint::NamedTensor& tensor : contents.model)
    layout.segments.push_back({.name = tensor.name, .dims = tensor.dims});
  const std::vector<std::string_view> momentum = {"momentum_buffer"};
  std::vector<std::string> notes;
  fit_slots(layout, momentum, contents, notes);
  fit_slots(layout, {}, contents, notes);
  EXPECT_EQ(contents.optimizer, saved.optimizer);
  EXPECT_TRUE(notes.empty());
}

}  // namespace
}  // namespace coxswain::train
