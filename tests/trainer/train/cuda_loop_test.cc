#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/cuda_host/device.h"
#include "tests/trainer/train/checkpoint_helper.h"
#include "tests/trainer/train/training_fixture.h"
#include "trainer/backend/cuda/cuda_backend.h"

// The training loop with its parameters on the device that tests/support/cuda_host is.
namespace coxswain::train {
namespace {

World on_cuda(std::uint64_t seed) {
  cuda_host::set_seed(seed);
  return {.training = &small_images(), .test = &small_test_images(), .backend = [](int) {
            return backend::make_cuda_backend(0);
          }};
}

// Stopped in the midst, and resumed: the whole training's bits.
void expect_to_go_on_bit_for_bit(TrainOptions options) {
  const CheckpointDirectory all;
  const CheckpointDirectory halves;
  options.checkpoint.directory = all.path();
  const Outcome whole = run(options, on_cuda(1));
  options.checkpoint.directory = halves.path();
  World world = on_cuda(2);
  world.hooks = stop_after(0, 11);
  run(options, world);
  const Outcome rest = run(options, on_cuda(3));
  EXPECT_EQ(difference(whole.weights, rest.weights), "");
  EXPECT_EQ(difference(whole.slots, rest.slots), "");
}

TEST(CudaLoop, trains_as_on_the_reference) {
  const Outcome expected =
      run(mlp_options(), {.training = &small_images(), .test = &small_test_images()});
  for (const std::uint64_t seed : {1, 2, 3}) {
    const Outcome actual = run(mlp_options(), on_cuda(seed));
    EXPECT_LE(relative_distance(expected.weights, actual.weights), 1e-5);
    EXPECT_LE(relative_distance(expected.slots, actual.slots), 1e-5);
    EXPECT_EQ(expected.updates, actual.updates);
    ASSERT_EQ(expected.told.epochs.size(), actual.told.epochs.size());
    EXPECT_EQ(expected.told.epochs.back().accuracy, actual.told.epochs.back().accuracy);
  }
}

// What is evaluated is the average.
TEST(CudaLoop, clips_gradients_and_averages_weights_as_on_the_reference) {
  TrainOptions options = mlp_options();
  options.rule.clip_norm = 0.25F;
  options.rule.ema_decay = 0.9F;
  const World reference{.training = &small_images(), .test = &small_test_images()};
  const Outcome expected = run(options, reference);
  const Outcome actual = run(options, on_cuda(1));
  EXPECT_LE(relative_distance(expected.weights, actual.weights), 1e-5);
  EXPECT_LE(relative_distance(expected.slots, actual.slots), 1e-5);
  EXPECT_NEAR(expected.told.finished.at(0).loss.value(), actual.told.finished.at(0).loss.value(),
              1e-5);
  options.rule.clip_norm = 0;
  EXPECT_GT(relative_distance(run(options, reference).weights, actual.weights), 1e-3);
}

// A rule whose step of a tensor depends on all of it, with all that updates do besides.
TrainOptions layerwise_options(OptimizerKind kind, Precision precision) {
  TrainOptions options = mlp_options();
  options.precision = precision;
  options.rule = {.kind = kind,
                  .decay_scope = DecayScope::kWeights,
                  .weight_decay = 0.01F,
                  .clip_norm = 0.5F,
                  .clip_value = 0.1F,
                  .ema_decay = 0.9F};
  options.schedule.lr = kind == OptimizerKind::kLars ? 0.1F : 0.001F;
  options.schedule.momentum = 0.9F;
  if (precision == Precision::kFp16) options.loss_scaling = {.initial = 0x1.0p24, .dynamic = true};
  return options;
}

class CudaLayerwiseLoop : public testing::TestWithParam<OptimizerKind> {};

// The first steps overflow in fp16, and change nothing.
TEST_P(CudaLayerwiseLoop, trains_and_skips_as_on_the_reference) {
  for (const auto& [precision, tolerance] :
       {std::pair{Precision::kFp32, 1e-5}, {Precision::kFp16, 4e-3}}) {
    const TrainOptions options = layerwise_options(GetParam(), precision);
    const Outcome expected =
        run(options, {.training = &small_images(), .test = &small_test_images()});
    const Outcome actual = run(options, on_cuda(1));
    EXPECT_LE(relative_distance(expected.weights, actual.weights), tolerance) << word(precision);
    EXPECT_EQ(expected.updates, actual.updates);
    EXPECT_EQ(actual.updates < 24, precision == Precision::kFp16) << actual.updates;
    if (precision == Precision::kFp32) {
      EXPECT_LE(relative_distance(expected.slots, actual.slots), tolerance);
    }
  }
}

TEST_P(CudaLayerwiseLoop, goes_on_from_a_checkpoint_bit_for_bit) {
  expect_to_go_on_bit_for_bit(layerwise_options(GetParam(), Precision::kFp16));
}

INSTANTIATE_TEST_SUITE_P(Rules, CudaLayerwiseLoop,
                         testing::Values(OptimizerKind::kLars, OptimizerKind::kLamb,
                                         OptimizerKind::kMuon),
                         [](const auto& tested) { return std::string(word(tested.param)); });

// By a clock that slows down from look to look, what is timed first takes longest.
TEST(CudaLoop, only_a_host_is_asked_by_the_clock_whether_bf16_is_slower) {
  TrainOptions options = mlp_options();
  options.precision = Precision::kBf16;
  options.fixed_order = false;
  options.epochs = 1;
  for (const bool on_device : {false, true}) {
    World world = on_device ? on_cuda(1) : World{.training = &small_images()};
    world.now = [looks = 0, time = std::chrono::steady_clock::time_point()](int) mutable {
      return time += std::chrono::microseconds(1'000'000 / ++looks);
    };
    const std::string notes = run(options, world).told.notes();
    EXPECT_EQ(notes.find("times as long for a step as in fp32") != notes.npos, !on_device) << notes;
  }
}

// As host_products.cc says how long its engines take, by the device's clock, whatever the host's.
TEST(CudaLoop, takes_the_engines_that_it_timed_and_keeps_them_in_a_resume) {
  const CheckpointDirectory directory;
  TrainOptions options = mlp_options();
  options.model = Model::kSingaCnn;
  options.epochs.reset();
  options.steps = 1;
  options.checkpoint.directory = directory.path();
  const auto images = data::make_synthetic({1, 1, 28, 28}, 4, 16, 1);
  World world = on_cuda(1);
  world.training = world.test = images.get();
  EXPECT_EQ(run(options, world).told.notes().find("timed"), std::string::npos);

  options.fixed_order = false;
  options.checkpoint.resume = false;
  const std::string notes = run(options, world).told.notes();
  EXPECT_NE(notes.find("timed the engines of 5 convolutions in "), notes.npos) << notes;
  EXPECT_NE(notes.find("with 3 others they take 71 % of their time"), notes.npos) << notes;
  const backend::Algorithms chosen = newest(directory.path()).state.algorithms;
  EXPECT_EQ(chosen, (backend::Algorithms{{"conv1.weights", "backwards"},
                                         {"conv2.data", "sideways"},
                                         {"conv2.weights", "backwards"}}));
  options.checkpoint.resume = true;
  options.steps = 2;
  EXPECT_EQ(run(options, world).told.notes().find("timed"), std::string::npos);
  EXPECT_EQ(newest(directory.path()).state.algorithms, chosen);
}

struct NarrowCase {
  Model model;
  tensor::Shape image;
  std::int64_t steps;
  double scale;        // of the loss, at first
  bool skips_in_fp16;  // its first steps overflow
};

class CudaNarrowLoop : public testing::TestWithParam<NarrowCase> {};

// The rate is low: where a rounding goes to the other neighbour, all that follows goes on from
// there, and grows apart where the loss grows.
TEST_P(CudaNarrowLoop, trains_skips_and_scales_the_loss_as_on_the_reference) {
  const NarrowCase& c = GetParam();
  const auto images = data::make_synthetic(c.image, 4, 48, 1);
  TrainOptions options = mlp_options();
  options.model = c.model;
  options.steps = c.steps;
  options.batch_size = 4;
  options.epochs.reset();
  options.schedule.lr = 0.005F;
  options.loss_scaling = {.initial = c.scale, .dynamic = true};
  for (const auto& [precision, tolerance] :
       {std::pair{Precision::kBf16, 1e-2}, {Precision::kFp16, 4e-3}}) {
    SCOPED_TRACE(word(precision));
    options.precision = precision;
    World world{.training = images.get(), .test = images.get()};
    const Outcome expected = run(options, world);
    world.backend = on_cuda(1).backend;
    const Outcome actual = run(options, world);
    const double distance = relative_distance(expected.weights, actual.weights);
    EXPECT_LE(distance, tolerance);
    EXPECT_EQ(expected.updates, actual.updates);
    EXPECT_EQ(actual.updates < c.steps, c.skips_in_fp16 && precision == Precision::kFp16)
        << actual.updates;
  }
}

// The gradients of a convolution's weights overflow where the reference's do not yet.
INSTANTIATE_TEST_SUITE_P(
    Models, CudaNarrowLoop,
    testing::Values(NarrowCase{Model::kMlp, {1, 1, 28, 28}, 12, 0x1.0p20, true},
                    NarrowCase{Model::kSingaCnn, {1, 1, 28, 28}, 12, 0x1.0p12, false},
                    NarrowCase{Model::kCifarResnet8, {1, 3, 16, 16}, 6, 0x1.0p12, false}));

TEST(CudaLoop, goes_on_from_a_checkpoint_bit_for_bit) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16, Precision::kFp16}) {
    SCOPED_TRACE(word(precision));
    TrainOptions options = mlp_options();
    options.precision = precision;
    if (precision == Precision::kFp16)
      options.loss_scaling = {.initial = 0x1.0p24, .dynamic = true};
    expect_to_go_on_bit_for_bit(options);
  }
}

}  // namespace
}  // namespace coxswain::train
