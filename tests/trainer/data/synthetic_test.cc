#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <vector>

#include "tests/trainer/data/data_files.h"
#include "trainer/data/dataset.h"

namespace coxswain::data {
namespace {

using coxswain::test::bytes_of;
using coxswain::test::error_of;

double mean_of(std::span<const std::uint8_t> pixels) {
  return std::accumulate(pixels.begin(), pixels.end(), 0.0) / static_cast<double>(pixels.size());
}

TEST(Synthetic, is_a_function_of_the_seed) {
  const auto one = make_synthetic({1, 3, 8, 8}, 10, 1000, 7);
  const auto same = make_synthetic({1, 3, 8, 8}, 10, 1000, 7);
  const auto other = make_synthetic({1, 3, 8, 8}, 10, 1000, 8);
  int labels_differ = 0;
  for (std::int64_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(one->label(i), same->label(i));
    ASSERT_EQ(bytes_of(*one, i), bytes_of(*same, i));
    labels_differ += one->label(i) != other->label(i) ? 1 : 0;
  }
  EXPECT_GT(labels_differ, 800);
}

TEST(Synthetic, draws_every_class_about_equally_often_and_tells_them_apart_by_the_mean) {
  const auto dataset = make_synthetic({1, 1, 28, 28}, 10, 10000, 42);
  EXPECT_EQ(dataset->size(), 10000);
  EXPECT_EQ(dataset->classes(), 10);
  EXPECT_EQ(dataset->sample_shape(), (tensor::Shape{1, 1, 28, 28}));
  std::vector<int> counts(10);
  std::vector<std::set<const std::uint8_t*>> images(10);
  for (std::int64_t i = 0; i < dataset->size(); ++i) {
    const auto label = static_cast<std::size_t>(dataset->label(i));
    ++counts.at(label);
    augment::Scratch scratch;
    const auto bytes = dataset->read(i, scratch).bytes;
    images[label].insert(bytes.data());
    // Noise of 0..63 over 0, 21, ..., 192.
    ASSERT_NEAR(mean_of(bytes), 192.0 * static_cast<double>(label) / 9.0 + 31.5, 4.0);
  }
  for (std::size_t k = 0; k < 10; ++k) {
    EXPECT_NEAR(counts[k], 1000, 150);
    EXPECT_EQ(images[k].size(), k < 4 ? 7U : 6U);  // 64 images over 10 classes
  }
}

TEST(Synthetic, stands_for_imagenet_in_ten_megabytes) {
  const auto dataset = make_synthetic({1, 3, 224, 224}, 1000, 1281167, 1);
  std::set<const std::uint8_t*> images;
  std::set<std::int32_t> labels;
  for (std::int64_t i = 0; i < 20000; ++i) {
    labels.insert(dataset->label(i));
    augment::Scratch scratch;
    const auto pixels = dataset->read(i, scratch).bytes;
    ASSERT_EQ(pixels.size(), 150528U);
    images.insert(pixels.data());
  }
  EXPECT_EQ(labels.size(), 1000U);
  EXPECT_EQ(*labels.rbegin(), 999);
  EXPECT_EQ(images.size(), 64U);
  EXPECT_EQ(*images.rbegin() - *images.begin(), 63 * 150528);
}

TEST(Synthetic, refuses_shapes_and_sizes_that_make_no_sense) {
  const auto error = [](tensor::Shape shape, std::int64_t classes, std::int64_t size) {
    return error_of([&] { make_synthetic(shape, classes, size, 0); });
  };
  EXPECT_EQ(
      error({1, 3, 0, 8}, 10, 10),
      "65 [data] synthetic images of 3x0x8: expected sides of 1 to 16384 and at most 67108864 "
      "pixels");
  EXPECT_EQ(error({1, 3, 16384, 16384}, 10, 10),
            "65 [data] synthetic images of 3x16384x16384: expected sides of 1 to 16384 and at most "
            "67108864 pixels");
  EXPECT_EQ(error({1, 3, 8, 8}, 0, 10),
            "65 [data] synthetic data of 10 samples in 0 classes: expected at least 1 of each");
  EXPECT_EQ(error({1, 3, 8, 8}, 10, 0),
            "65 [data] synthetic data of 0 samples in 10 classes: expected at least 1 of each");
}

}  // namespace
}  // namespace coxswain::data
