#include "trainer/picture/sheet.h"

#include <gtest/gtest.h>

namespace coxswain::picture {
namespace {

constexpr tensor::Shape kSample{1, 1, 28, 28};

std::vector<Labelled> grey(std::size_t count, const std::string& line) {
  return std::vector<Labelled>(count, {std::vector<std::uint8_t>(28 * 28, 100), {line}});
}

std::int64_t dark_dots(const Drawn& sheet) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < sheet.pixels.size(); i += 3) count += sheet.pixels[i] < 100;
  return count;
}

TEST(Sheet, draws_all_samples_larger_and_about_as_wide_as_high) {
  const Drawn sheet = draw_sheet(grey(12, ""), kSample);
  EXPECT_EQ(sheet.shape, sheet_shape(12, kSample, 1));
  EXPECT_EQ(std::ssize(sheet.pixels), sheet.shape.elements());
  std::int64_t count = 0;
  for (const std::uint8_t value : sheet.pixels) count += value == 100;
  EXPECT_EQ(count, 12 * 28 * 28 * 4 * 4 * 3);
  EXPECT_LT(std::abs(sheet.shape.h - sheet.shape.w), 150);
}

TEST(Sheet, writes_capitals_and_question_marks) {
  const auto drawn = [](const std::string& line) {
    return draw_sheet(grey(1, line), kSample).pixels;
  };
  EXPECT_EQ(drawn("cat"), drawn("CAT"));
  EXPECT_NE(drawn("cat"), drawn("cot"));
  EXPECT_EQ(drawn("\xc3\xa9\n"), drawn("??"));
  // A 1: eight dots of two by two.
  EXPECT_EQ(dark_dots(draw_sheet(grey(1, "1"), kSample)), 8 * 4);
}

TEST(Sheet, ends_a_line_with_its_picture) {
  const Drawn sheet = draw_sheet(grey(1, std::string(1000, '8')), kSample);
  EXPECT_EQ(dark_dots(sheet), 28 * 4 / 8 * 13 * 4);
}

}  // namespace
}  // namespace coxswain::picture
