#include <gtest/gtest.h>

#include <thread>

#include "tests/trainer/train/training_fixture.h"

namespace coxswain::train {
namespace {

// Reads as from a volume far away.
class SlowDataset : public data::Dataset {
 public:
  explicit SlowDataset(const data::Dataset& inner) : inner_(inner) {}
  std::int64_t size() const override { return inner_.size(); }
  tensor::Shape sample_shape() const override { return inner_.sample_shape(); }
  std::int64_t classes() const override { return inner_.classes(); }
  std::int32_t label(std::int64_t id) const override { return inner_.label(id); }
  augment::Image read(std::int64_t id, augment::Scratch& scratch) const override {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return inner_.read(id, scratch);
  }

 private:
  const data::Dataset& inner_;
};

// Each waits for data most of the time, and for the other, who does the same; nobody is lost.
TEST(SlowData, is_told_as_waiting_for_data) {
  TrainOptions options = mlp_options();
  options.epochs = 1;
  const SlowDataset images(small_images());
  const Outcome slow =
      run(options, {.size = 2, .training = &images, .peer_deadline = std::chrono::seconds(10)});
  EXPECT_EQ(slow.result, Result::kSucceeded);
  EXPECT_TRUE(slow.told.warnings.empty());
  ASSERT_EQ(slow.told.epochs.size(), 1U);
  EXPECT_GT(slow.told.epochs[0].input_bound, 0.1);
  const Outcome quick = run(options, {.size = 2, .training = &small_images()});
  EXPECT_EQ(difference(slow.weights, quick.weights), "");
}

}  // namespace
}  // namespace coxswain::train
