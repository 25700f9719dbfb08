#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/train/checkpoint_helper.h"
#include "tests/trainer/train/training_fixture.h"
#include "trainer/backend/onednn/onednn_backend.h"

namespace coxswain::train {
namespace {

using ::testing::HasSubstr;

TrainOptions saving_to(const CheckpointDirectory& directory) {
  TrainOptions options = mlp_options();
  options.model = Model::kKerasCnn;  // oneDNN stores its convolutions in an order of its own
  options.epochs = 2;
  options.checkpoint.directory = directory.path();
  return options;
}

World over_onednn() {
  World world = {.size = 1, .training = &small_images(), .test = &small_test_images()};
  world.backend = [](int) { return backend::make_onednn_backend({}); };
  return world;
}

std::vector<float> values_of(const std::vector<checkpoint::NamedTensor>& tensors) {
  std::vector<float> values;
  for (const auto& tensor : tensors) {
    values.insert(values.end(), tensor.values.begin(), tensor.values.end());
  }
  return values;
}

TEST(Backends, go_on_from_each_others_checkpoints) {
  const World reference = {.size = 2, .training = &small_images(), .test = &small_test_images()};
  const CheckpointDirectory undisturbed_directory;
  run(saving_to(undisturbed_directory), reference);
  const checkpoint::Contents undisturbed = newest(undisturbed_directory.path());

  for (const bool onednn_first : {true, false}) {
    const CheckpointDirectory directory;
    World first = onednn_first ? over_onednn() : reference;
    first.hooks = stop_after(0, 9);
    run(saving_to(directory), first);
    World second = onednn_first ? reference : over_onednn();
    const Outcome resumed = run(saving_to(directory), second);
    EXPECT_EQ(resumed.updates, 6);
    EXPECT_THAT(resumed.told.notes(), HasSubstr("continues not bit for bit"));
    const checkpoint::Contents mixed = newest(directory.path());
    EXPECT_LE(relative_distance(values_of(undisturbed.model), values_of(mixed.model)), 1e-5);
    EXPECT_LE(relative_distance(values_of(undisturbed.optimizer), values_of(mixed.optimizer)),
              1e-3);
  }
}

TEST(Backends, each_resume_bit_for_bit) {
  const CheckpointDirectory undisturbed_directory;
  run(saving_to(undisturbed_directory), over_onednn());
  const CheckpointDirectory directory;
  World stopped = over_onednn();
  stopped.hooks = stop_after(0, 9);
  run(saving_to(directory), stopped);
  run(saving_to(directory), over_onednn());
  expect_equal(newest(directory.path()), newest(undisturbed_directory.path()));
}

}  // namespace
}  // namespace coxswain::train
