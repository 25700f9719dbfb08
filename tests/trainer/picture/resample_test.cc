#include "trainer/augment/resample.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/trainer/picture/ppm.h"
#include "trainer/augment/centre_crop.h"
#include "trainer/augment/random_resized_crop.h"
#include "trainer/augment/resize.h"
#include "trainer/picture/decode.h"

namespace coxswain::augment {
namespace {

using test::difference;
using test::read_ppm;

Image photo(Scratch& pixels) {
  const auto bytes = test::file_bytes(test::picture_file("photo.png"));
  return {picture::decode(bytes, {}, pixels).shape, pixels};
}

TEST(Resample, makes_the_pixels_of_pillow_and_of_mxnet) {
  Scratch pixels;
  const Image image = photo(pixels);
  for (const auto& [name, interpolation] : {std::pair{"bilinear", Interpolation::kBilinear},
                                            {"antialias", Interpolation::kAntialias}}) {
    for (const auto& [width, height] :
         std::vector<std::pair<int, int>>{{16, 12}, {23, 31}, {60, 50}, {37, 10}, {5, 3}}) {
      Scratch scratch;
      const Image made = resample(image, whole(image.shape), height, width, interpolation, scratch);
      const auto expected = read_ppm(fmt::format("{}-{}x{}.ppm", name, width, height));
      EXPECT_EQ(made.shape, expected.shape);
      EXPECT_LE(difference(made.bytes, expected.pixels), 1) << name << width << "x" << height;
    }
    for (const int side : {15, 40}) {
      Scratch scratch;
      const Image made = resample(image, {3, 4, 19, 20}, side, side, interpolation, scratch);
      const auto expected = read_ppm(fmt::format("{}-box-{}x{}.ppm", name, side, side));
      EXPECT_LE(difference(made.bytes, expected.pixels), 1) << name << " box " << side;
    }
  }
}

TEST(Resample, keeps_what_is_of_one_colour) {
  const Scratch grey(7 * 5 * 3, 201);
  for (const auto interpolation : {Interpolation::kBilinear, Interpolation::kAntialias}) {
    for (const std::int64_t side : {1, 2, 4, 9, 100}) {
      Scratch scratch;
      const Image made =
          resample({{1, 3, 7, 5}, grey}, {0, 0, 7, 5}, side, side, interpolation, scratch);
      EXPECT_EQ(difference(made.bytes, Scratch(made.bytes.size(), 201)), 0) << side;
    }
  }
}

TEST(Resize, keeps_the_proportions_or_stretches) {
  const Resize by_short{.size = 256};
  EXPECT_EQ(by_short.result({1, 3, 375, 500}), (tensor::Shape{1, 3, 256, 341}));
  EXPECT_EQ(by_short.result({1, 3, 500, 333}), (tensor::Shape{1, 3, 384, 256}));
  const Resize stretched{.size = 40, .fit = Fit::kStretch};
  EXPECT_EQ(stretched.result({1, 3, 375, 500}), (tensor::Shape{1, 3, 40, 40}));
  EXPECT_EQ(by_short.problem({1, 3, 1, 1'000'000}),
            "resize makes 256000000x256 of 1000000x1, over the limit of 67108864 pixels");
}

// torchvision.transforms.functional.center_crop of a row that counts from 1.
TEST(CentreCrop, cuts_or_pads_as_torchvision) {
  const auto cut = [](std::int64_t from, std::int64_t to) {
    Scratch row;
    for (std::int64_t y = 0; y < from; ++y)
      for (std::int64_t x = 1; x <= from; ++x) row.push_back(static_cast<std::uint8_t>(x));
    Scratch scratch;
    const Image made = CentreCrop{to}.settle({{1, 1, from, from}, row}, scratch);
    const auto middle =
        made.bytes.subspan(static_cast<std::size_t>(to / 2 * to), static_cast<std::size_t>(to));
    return std::vector<int>(middle.begin(), middle.end());
  };
  EXPECT_EQ(cut(5, 3), (std::vector{2, 3, 4}));
  EXPECT_EQ(cut(6, 3), (std::vector{3, 4, 5}));        // round(1.5) is 2
  EXPECT_EQ(cut(6, 5), (std::vector{1, 2, 3, 4, 5}));  // round(0.5) is 0
  EXPECT_EQ(cut(2, 5), (std::vector{0, 1, 2, 0, 0}));
  EXPECT_EQ(cut(3, 3), (std::vector{1, 2, 3}));
}

TEST(RandomResizedCrop, draws_boxes_of_the_area_and_ratio_asked_for) {
  const RandomResizedCrop step;
  const tensor::Shape shape{1, 3, 375, 500};
  double log_ratio = 0;
  double share = 0;
  for (std::int64_t id = 0; id < 2000; ++id) {
    const Box box = step.choose(shape, {{42, id, 0}, 9});
    const double ratio = static_cast<double>(box.width) / static_cast<double>(box.height);
    const double area = static_cast<double>(box.width * box.height) / (375.0 * 500.0);
    ASSERT_TRUE(box.y >= 0 && box.x >= 0 && box.y + box.height <= 375 && box.x + box.width <= 500);
    ASSERT_TRUE(ratio > 0.74 && ratio < 1.345) << ratio;
    ASSERT_TRUE(area > 0.079 && area <= 1) << area;
    log_ratio += std::log(ratio) / 2000;
    share += area / 2000;
  }
  EXPECT_NEAR(log_ratio, 0.02, 0.03);
  EXPECT_NEAR(share, 0.43, 0.02);  // large and narrow ones do not fit
}

TEST(RandomResizedCrop, takes_the_middle_where_no_try_fits) {
  const RandomResizedCrop step{.size = 4, .scale = {1, 1}, .ratio = {1, 1}};
  const Box box = step.choose({1, 1, 3, 90}, {{42, 1, 0}, 9});
  EXPECT_EQ((std::array{box.y, box.x, box.height, box.width}),
            (std::array<std::int64_t, 4>{0, 43, 3, 3}));
}

TEST(RandomResizedCrop, raises_to_a_power_as_the_library_does) {
  for (const std::uint32_t word : {0U, 1U, 0x40000000U, 0x80000000U, 0xdeadbeefU, 0xffffffffU}) {
    EXPECT_NEAR(fractional_power(16.0 / 9, word), std::pow(16.0 / 9, uniform(word)), 1e-12);
  }
}

}  // namespace
}  // namespace coxswain::augment
