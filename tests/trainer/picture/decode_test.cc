#include "trainer/picture/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/support/test_flags.h"
#include "tests/trainer/picture/ppm.h"
#include "trainer/picture/exif.h"

namespace coxswain::picture {
namespace {

using test::difference;
using test::file_bytes;
using test::picture_file;
using test::read_ppm;

using Bytes = std::vector<std::uint8_t>;

std::string problem_of(const Bytes& bytes) {
  augment::Scratch pixels;
  return decode(bytes, {}, pixels).problem;
}

Bytes text(std::string_view value) { return {value.begin(), value.end()}; }

struct Row {
  std::string file;
  std::string expected;
  DecodeOptions options;
  int off = 0;  // by how much a value may differ
};

TEST(Decode, makes_the_pixels_that_pillow_makes) {
  const std::vector<Row> rows = {
      {"rgb.png", "rgb.png", {}},
      {"grey.png", "grey.png", {}},
      {"rgba.png", "rgba.png", {}},
      {"grey-alpha.png", "grey-alpha.png", {}},
      {"palette.png", "palette.png", {}},
      {"palette-see-through.png", "palette-see-through.png", {}},
      {"bits.png", "bits.png", {}},
      {"two-bits.png", "two-bits.png", {}},
      {"deep.png", "deep.png", {}},
      {"deep-grey.png", "deep-grey.png", {}},
      {"colour.jpg", "colour.jpg", {}, 1},
      {"full-colour.jpg", "full-colour.jpg", {}, 1},
      {"grey.jpg", "grey.jpg", {}, 1},
      {"inks.jpg", "inks.jpg", {}, 1},
      {"progressive.jpg", "progressive.jpg", {}, 1},
      {"turned.jpg", "turned.jpg", {}, 1},
      {"turned.jpg", "turned.jpg.upright", {.apply_orientation = true}, 1},
  };
  for (const Row& row : rows) {
    augment::Scratch pixels;
    const Decoded decoded = decode(file_bytes(picture_file(row.file)), row.options, pixels);
    const test::Ppm expected = read_ppm(row.expected + ".ppm");
    EXPECT_EQ(decoded.problem, "") << row.file;
    EXPECT_EQ(decoded.shape, expected.shape) << row.file;
    EXPECT_LE(difference(pixels, expected.pixels), row.off) << row.file;
    const Decoded measured = measure(file_bytes(picture_file(row.file)), row.options);
    EXPECT_EQ(measured.shape, expected.shape) << row.file;
  }
}

TEST(Decode, makes_grey_of_colours_as_pillow_does) {
  const test::Ppm expected = read_ppm("colour.jpg.grey.ppm");
  augment::Scratch pixels;
  const auto decoded = decode(file_bytes(picture_file("colour.jpg")), {.channels = 1}, pixels);
  EXPECT_EQ(decoded.shape, (tensor::Shape{1, 1, 13, 21}));
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    EXPECT_NEAR(pixels[i], expected.pixels[3 * i], 1);
  }
}

TEST(Decode, shrinks_a_jpeg_while_its_sides_stay_long_enough) {
  for (const auto& [least, height, width] : std::vector<std::array<std::int64_t, 3>>{
           {14, 13, 21}, {7, 13, 21}, {6, 7, 11}, {3, 4, 6}, {1, 2, 3}}) {
    augment::Scratch pixels;
    const auto decoded =
        decode(file_bytes(picture_file("colour.jpg")), {.least_side = least}, pixels);
    EXPECT_EQ(decoded.shape, (tensor::Shape{1, 3, height, width})) << least;
    EXPECT_EQ(pixels.size(), static_cast<std::size_t>(height * width * 3));
  }
}

TEST(Decode, says_what_is_wrong) {
  const Bytes jpeg = file_bytes(picture_file("colour.jpg"));
  const Bytes png = file_bytes(picture_file("rgb.png"));
  const auto first = [](Bytes bytes, std::size_t count) {
    bytes.resize(count);
    return bytes;
  };
  const auto with = [](Bytes bytes, std::size_t at, std::uint8_t value) {
    bytes.at(at) = value;
    return bytes;
  };
  EXPECT_EQ(problem_of({}), "is empty");
  EXPECT_EQ(problem_of(text("hello")), "is neither JPEG nor PNG");
  EXPECT_EQ(problem_of(text("RIFF\1\1\1\1WEBPVP8 ")), "is WebP; JPEG and PNG can be read");
  EXPECT_EQ(problem_of(text("GIF89a")), "is GIF; JPEG and PNG can be read");
  EXPECT_EQ(problem_of(first(jpeg, jpeg.size() - 40)), "is a JPEG that ends too early");
  EXPECT_EQ(problem_of(first(jpeg, 4)), "is a JPEG that ends too early");
  EXPECT_EQ(problem_of(first(png, png.size() - 40)), "is a broken PNG: ends too early");
  EXPECT_EQ(problem_of(with(png, png.size() - 18, 99)),
            "is a broken PNG: IDAT: incorrect data check");
}

// The header's sizes alone decide: nothing of theirs is allocated.
TEST(Decode, refuses_a_bomb_by_its_header) {
  augment::Scratch pixels;
  EXPECT_EQ(decode(test::png_that_says(31623, 31623), {}, pixels).problem,
            "has 31623x31623 pixels, over the limit of 67108864");
  EXPECT_EQ(decode(test::png_that_says(21, 13), {}, pixels).problem, "");
  Bytes jpeg = file_bytes(picture_file("colour.jpg"));
  const std::array<std::uint8_t, 2> start_of_frame{0xff, 0xc0};
  const auto frame = std::ranges::search(jpeg, start_of_frame).begin() - jpeg.begin();
  for (int i = 5; i < 9; ++i) jpeg[static_cast<std::size_t>(frame + i)] = 0x7f;
  EXPECT_EQ(decode(jpeg, {}, pixels).problem, "has 32639x32639 pixels, over the limit of 67108864");
  EXPECT_LT(pixels.capacity(), 100'000U);
}

// Any damage is a problem or an image, never a crash; each file's bytes in turn.
TEST(Decode, survives_every_truncation_and_many_flipped_bits) {
  std::mt19937 random(static_cast<unsigned>(test::flags().seed));
  augment::Scratch pixels;
  for (const char* name : {"colour.jpg", "progressive.jpg", "inks.jpg", "turned.jpg", "rgb.png",
                           "palette.png", "deep.png"}) {
    const Bytes whole = file_bytes(picture_file(name));
    for (std::size_t size = 0; size < whole.size(); size += 1 + whole.size() / 200) {
      const Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      const auto decoded = decode(part, {.apply_orientation = true}, pixels);
      EXPECT_NE(decoded.problem, "") << name << " of " << size;
    }
    for (int i = 0; i < 300; ++i) {
      Bytes flipped = whole;
      for (int k = 0; k <= i % 3; ++k)
        flipped[random() % flipped.size()] ^= static_cast<std::uint8_t>(1U << (random() % 8));
      const auto decoded = decode(flipped, {.apply_orientation = true}, pixels);
      if (decoded.problem.empty()) {
        EXPECT_EQ(pixels.size(), static_cast<std::size_t>(decoded.shape.per_sample()));
      }
    }
  }
}

TEST(Exif, turns_each_of_the_eight_ways) {
  // "ab/cd/ef", two wide and three high; what a viewer shows of it.
  const std::vector<std::pair<int, std::string>> rows = {
      {1, "abcdef"}, {2, "badcfe"}, {3, "fedcba"}, {4, "efcdab"},
      {5, "acebdf"}, {6, "ecafdb"}, {7, "fdbeca"}, {8, "bdface"}};
  for (const auto& [orientation, expected] : rows) {
    Bytes out(6);
    turn(text("abcdef"), 3, 2, 1, orientation, out);
    EXPECT_EQ(std::string(out.begin(), out.end()), expected) << orientation;
  }
}

TEST(Exif, is_1_where_it_does_not_say) {
  EXPECT_EQ(orientation_of({}), 1);
  EXPECT_EQ(orientation_of(text("Exif")), 1);
  EXPECT_EQ(orientation_of(text(std::string_view("Exif\0\0II*\0\xff\xff\xff\xff", 14))), 1);
}

}  // namespace
}  // namespace coxswain::picture
