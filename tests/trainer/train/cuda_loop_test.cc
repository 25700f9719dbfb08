#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/cuda_host/device.h"
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

TEST(CudaLoop, goes_on_from_a_checkpoint_bit_for_bit) {
  const std::string all = testing::TempDir() + "/cuda-all";
  const std::string halves = testing::TempDir() + "/cuda-halves";
  for (const std::string& folder : {all, halves}) std::filesystem::remove_all(folder);
  TrainOptions options = mlp_options();
  options.checkpoint.directory = all;
  const Outcome whole = run(options, on_cuda(1));
  options.checkpoint.directory = halves;
  World world = on_cuda(2);
  world.hooks = stop_after(0, 11);
  run(options, world);
  const Outcome rest = run(options, on_cuda(3));
  EXPECT_EQ(difference(whole.weights, rest.weights), "");
  EXPECT_EQ(difference(whole.slots, rest.slots), "");
}

}  // namespace
}  // namespace coxswain::train
