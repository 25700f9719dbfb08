#include <gtest/gtest.h>

#include "tests/trainer/picture/ppm.h"
#include "trainer/augment/augmentation.h"
#include "trainer/picture/decode.h"

namespace coxswain::augment {
namespace {

using test::difference;
using test::read_ppm;

class ColourTest : public ::testing::Test {
 protected:
  ColourTest() {
    const auto bytes = test::file_bytes(test::picture_file("photo.png"));
    photo_ = {picture::decode(bytes, {}, pixels_).shape, pixels_};
  }

  Scratch pixels_;
  Scratch scratch_;
  Image photo_;
};

TEST_F(ColourTest, changes_as_pillow_does) {
  const auto off = [&](const Image& made, const char* name) {
    return difference(made.bytes, read_ppm(name).pixels);
  };
  EXPECT_LE(off(Brightness::with(photo_, 0.6F, scratch_), "brightness-0.6.ppm"), 1);
  EXPECT_LE(off(Brightness::with(photo_, 1.375F, scratch_), "brightness-1.375.ppm"), 1);
  EXPECT_LE(off(Contrast::with(photo_, 0.6F, scratch_), "contrast-0.6.ppm"), 1);
  EXPECT_LE(off(Contrast::with(photo_, 1.375F, scratch_), "contrast-1.375.ppm"), 1);
  EXPECT_LE(off(Saturation::with(photo_, 0.6F, scratch_), "saturation-0.6.ppm"), 1);
  EXPECT_LE(off(Saturation::with(photo_, 1.375F, scratch_), "saturation-1.375.ppm"), 1);
}

TEST_F(ColourTest, shifts_hue_saturation_and_lightness_as_opencv_does) {
  const Image made = Hsl::with(photo_, {20, -30, 15}, scratch_);
  EXPECT_LE(difference(made.bytes, read_ppm("hsl-20--30-15.ppm").pixels), 1);
}

// OpenCV rounds places to 1/32 of a pixel, so that its values may be a few off.
TEST_F(ColourTest, warps_as_opencv_does) {
  const Image made = Affine{}.warp(photo_, 17, 0.2, 1, 1.1, scratch_);
  const auto expected = read_ppm("affine-17.ppm");
  ASSERT_EQ(made.shape, expected.shape);
  double sum = 0;
  for (std::size_t i = 0; i < expected.pixels.size(); ++i) {
    sum += std::abs(made.bytes[i] - expected.pixels[i]);
  }
  EXPECT_LE(sum / static_cast<double>(expected.pixels.size()), 1);
  EXPECT_LE(difference(made.bytes, expected.pixels), 8);
}

TEST_F(ColourTest, an_affine_that_does_nothing_changes_nothing) {
  const Image made = Affine{}.apply(photo_, {}, scratch_);
  EXPECT_EQ(difference(made.bytes, photo_.bytes), 0);
}

// eigenvectors x (alpha x eigenvalues), by hand for alpha = (0.1, 0, 0).
TEST_F(ColourTest, shifts_along_imagenets_axes) {
  const Scratch grey(3, 100);
  const Image made = Pca::with({{1, 3, 1, 1}, grey}, {0.1F, 0, 0}, scratch_);
  EXPECT_EQ((std::vector<int>(made.bytes.begin(), made.bytes.end())), (std::vector{97, 97, 97}));
}

TEST_F(ColourTest, covers_a_square_that_may_reach_beyond_the_edge) {
  const Scratch black(32 * 32);
  std::int64_t whole_ones = 0;
  for (std::int64_t id = 0; id < 1000; ++id) {
    const Image made = Cutout{8, 127}.apply({{1, 1, 32, 32}, black}, {{42, id, 0}, 3}, scratch_);
    const auto covered = std::ranges::count(made.bytes, 127);
    ASSERT_TRUE(covered >= 16 && covered <= 64) << covered;
    whole_ones += covered == 64 ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(whole_ones), 1000 * 25.0 * 25 / (32 * 32), 50);
}

// Each draws anew for each sample, and does nothing in evaluation.
TEST_F(ColourTest, keys_its_chance_by_the_sample) {
  const std::vector<Augmentation> all = {Brightness{}, Contrast{}, Saturation{},        Hsl{},
                                         Pca{},        Cutout{},   Affine{.rotate = 10}};
  for (const Augmentation& step : all) {
    std::visit(
        [&](const auto& one) {
          if constexpr (requires { one.apply(photo_, {}, scratch_); }) {
            Scratch other;
            const auto bytes = [&](std::int64_t id, Scratch& scratch) {
              const Image made = one.apply(photo_, {{42, id, 0}, 3}, scratch);
              return std::vector(made.bytes.begin(), made.bytes.end());
            };
            EXPECT_EQ(bytes(1, scratch_), bytes(1, other)) << one.kName;
            EXPECT_NE(bytes(1, scratch_), bytes(2, other)) << one.kName;
          }
        },
        step);
  }
}

}  // namespace
}  // namespace coxswain::augment
