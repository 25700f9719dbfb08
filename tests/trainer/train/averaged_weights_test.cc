#include "trainer/train/averaged_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/train/checkpoint_helper.h"
#include "tests/trainer/train/training_fixture.h"

namespace coxswain::train {
namespace {

using ::testing::HasSubstr;

TrainOptions averaging() {
  TrainOptions options = mlp_options();
  options.rule.ema_decay = 0.9F;
  return options;
}

const World kWorld{.size = 2, .training = &small_images(), .test = &small_test_images()};

TEST(AveragedWeights, are_what_is_evaluated_and_leave_training_as_it_is) {
  const Outcome plain = run(mlp_options(), kWorld);
  const Outcome averaged = run(averaging(), kWorld);
  EXPECT_EQ(difference(plain.weights, averaged.weights), "");
  EXPECT_NE(plain.told.finished.at(0).loss, averaged.told.finished.at(0).loss);
  EXPECT_THAT(averaged.told.notes(), HasSubstr("evaluates the weights' average: ema.decay 0.9"));
}

TEST(AveragedWeights, begin_as_the_weights_do) {
  TrainOptions options = averaging();
  options.steps = 1;
  options.schedule.momentum = 0;
  const Outcome outcome = run(options, kWorld);
  options.rule.ema_decay = 0;
  options.schedule.lr *= 0.1F;  // as far as the average goes in one step
  const Outcome short_step = run(options, kWorld);
  EXPECT_LE(relative_distance(outcome.slots, short_step.weights), 1e-6);
}

TEST(AveragedWeights, go_on_after_a_restart_bit_for_bit_and_are_taken_from_a_checkpoint) {
  const CheckpointDirectory directory;
  TrainOptions options = averaging();
  const Outcome whole = run(options, kWorld);
  options.checkpoint.directory = directory.path();
  World stopped = kWorld;
  stopped.hooks = stop_after(0, 5);
  EXPECT_EQ(run(options, stopped).result, Result::kSaved);
  const Outcome rest = run(options, kWorld);
  EXPECT_EQ(difference(whole.slots, rest.slots), "");
  EXPECT_EQ(whole.told.finished.at(0).loss, rest.told.finished.at(0).loss);

  checkpoint::Contents contents = newest(directory.path());
  const checkpoint::Contents saved = contents;
  EXPECT_TRUE(take_averages(contents));
  const auto& average = *std::ranges::find(saved.optimizer, "ema." + saved.model.front().name,
                                           &checkpoint::NamedTensor::name);
  EXPECT_EQ(contents.model.front().values, average.values);
  EXPECT_NE(contents.model.front().values, saved.model.front().values);
  checkpoint::Contents without = saved;
  without.optimizer.clear();
  EXPECT_FALSE(take_averages(without));
  EXPECT_EQ(without.model, saved.model);
}

}  // namespace
}  // namespace coxswain::train
