#include "trainer/train/whitening.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/train/checkpoint_helper.h"
#include "tests/trainer/train/training_fixture.h"
#include "trainer/network_file.h"

namespace coxswain::train {
namespace {

using ::testing::HasSubstr;

// Directions (3, 4) / 5 and (4, -3) / 5 with the eigenvalues 4 and 1: each over its root.
TEST(Whitening, divides_directions_by_their_deviation) {
  const std::vector<double> moments{(4 * 9 + 16) / 25.0, (4 * 12 - 12) / 25.0, (4 * 12 - 12) / 25.0,
                                    (4 * 16 + 9) / 25.0};
  const auto near = [](float value) { return ::testing::FloatNear(value, 1e-3F); };
  EXPECT_THAT(whitening_filters(moments, 4),
              ::testing::ElementsAre(near(0.3F), near(0.4F), near(0.8F), near(-0.6F), near(-0.3F),
                                     near(-0.4F), near(-0.8F), near(0.6F)));
  EXPECT_THAT(whitening_filters(moments, 3),
              ::testing::ElementsAre(near(0.3F), near(0.4F), near(0.8F), near(-0.6F), near(-0.3F),
                                     near(-0.4F)));
  EXPECT_EQ(whitening_filters(moments, 1).size(), 2U);
}

TrainOptions whitened_options() {
  TrainOptions options = mlp_options();
  options.layers = parse_network(R"(
layers:
- conv: {channels: 18, kernel: 3, bias: false, firstWeights: whitening, name: whiten}
- dense: {outputs: classes}
)",
                                 "net.yaml")
                       .layers;
  options.preprocessing = {augment::Normalise{{0.25F}, {0.5F}}};
  options.freeze = {"whiten."};
  return options;
}

// Its first weights; frozen, they are those of the end as well.
std::vector<float> first_weights(TrainOptions options, int ranks) {
  const CheckpointDirectory directory;
  options.checkpoint.directory = directory.path();
  options.epochs = 1;
  const Outcome outcome = run(options, {.size = ranks, .training = &small_images()});
  EXPECT_THAT(outcome.told.notes(), HasSubstr("whiten.weight whitens: of 60 training images"));
  const checkpoint::Contents contents = newest(directory.path());
  return std::ranges::find(contents.model, "whiten.weight", &checkpoint::NamedTensor::name)->values;
}

TEST(Whitening, is_of_what_training_sees) {
  TrainOptions options = whitened_options();
  options.evaluation_preprocessing = {augment::Normalise{{0.0F}, {1.0F}}};
  EXPECT_EQ(first_weights(options, 1), first_weights(whitened_options(), 1));
}

// What the first nine filters make of the images has the mean square 1 in each channel, and no two
// of them go together, but for the 5e-4: by the plain definition, over all patches of all images.
TEST(Whitening, makes_patches_white) {
  const std::vector<float> weights = first_weights(whitened_options(), 1);
  ASSERT_EQ(weights.size(), 162U);
  double sums[9][9] = {};
  augment::Scratch scratch;
  for (std::int64_t id = 0; id < small_images().size(); ++id) {
    const augment::Image image = small_images().read(id, scratch);
    for (int place = 0; place < 16; ++place) {
      double out[9] = {};
      for (int i = 0; i < 81; ++i) {
        const int y = place / 4 + i % 9 / 3;
        const int x = place % 4 + i % 3;
        const double byte = image.bytes[static_cast<std::size_t>(y * 6 + x)];
        out[i / 9] += weights[static_cast<std::size_t>(i)] * (byte / 255 - 0.25) / 0.5;
      }
      for (int i = 0; i < 81; ++i) sums[i / 9][i % 9] += out[i / 9] * out[i % 9] / (60 * 16);
    }
  }
  for (int i = 0; i < 81; ++i) EXPECT_NEAR(sums[i / 9][i % 9], i / 9 == i % 9, 0.05) << i;
}

TEST(Whitening, is_the_same_on_any_number_of_ranks) {
  EXPECT_EQ(first_weights(whitened_options(), 2), first_weights(whitened_options(), 1));
}

TEST(Whitening, is_of_the_first_start_alone) {
  TrainOptions options = whitened_options();
  const std::vector<float> whole = run(options, {.training = &small_images()}).weights;
  const CheckpointDirectory directory;
  options.checkpoint.directory = directory.path();
  options.epochs = 1;
  run(options, {.training = &small_images()});
  options.epochs = 3;
  const Outcome resumed = run(options, {.training = &small_images()});
  EXPECT_EQ(difference(resumed.weights, whole), "");
  EXPECT_THAT(resumed.told.notes(), ::testing::Not(HasSubstr("whitens")));
}

}  // namespace
}  // namespace coxswain::train
