#include "trainer/data/preprocessor.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <set>

#include "tests/support/test_flags.h"
#include "tests/trainer/data/data_files.h"
#include "trainer/tensor/philox.h"

namespace coxswain::data {
namespace {

using augment::AlternatingFlip;
using augment::Augmentation;
using augment::Flip;
using augment::Normalise;
using augment::PadCrop;
using augment::SampleKey;
using coxswain::test::error_of;
using tensor::Shape;
using Mode = augment::PadMode;
using Offsets = augment::CropOffsets;

// Pixels 1, 2, 3, ...: padding's 0 stands out.
std::vector<std::uint8_t> counting(Shape shape) {
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(shape.per_sample()));
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i + 1);
  return pixels;
}

std::vector<float> floats_of(Preprocessor& preprocessor, const SampleKey& key,
                             const augment::Image& image) {
  std::vector<std::uint8_t> bytes(image.bytes.size());
  preprocessor.run(key, image, bytes);
  std::vector<float> out(bytes.size());
  tensor::to_floats({bytes, preprocessor.table()}, image.shape, out);
  return out;
}

// From planes to planes, as these tests write their images.
std::vector<float> plain(const Preprocessing& steps, bool training, const SampleKey& key,
                         Shape shape, const std::vector<std::uint8_t>& planes) {
  augment::Scratch bytes(planes.size());
  augment::interleave(planes, shape, bytes);
  Preprocessor preprocessor(steps, shape, training);
  return floats_of(preprocessor, key, {shape, bytes});
}

// Back to pixels: exact, since (p / 255) * 255 rounds to p.
std::vector<int> pixels_of(const std::vector<float>& values) {
  std::vector<int> pixels;
  for (const float value : values) pixels.push_back(static_cast<int>(std::lround(value * 255.0F)));
  return pixels;
}

// numpy.pad, then a slice, then a flip, as written in the tutorials.
int expected_pixel(const std::vector<std::uint8_t>& pixels, Shape shape, const PadCrop& crop,
                   std::int64_t row_offset, std::int64_t column_offset, std::int64_t c,
                   std::int64_t y, std::int64_t x) {
  const std::int64_t row = y + row_offset - crop.pad;
  const std::int64_t column = x + column_offset - crop.pad;
  const auto inside = [](std::int64_t place, std::int64_t side) {
    return place >= 0 && place < side;
  };
  if (crop.mode == Mode::kZero && !(inside(row, shape.h) && inside(column, shape.w))) return 0;
  const auto mirrored = [](std::int64_t place, std::int64_t side) {
    if (place < 0) return -1 - place;
    return place >= side ? 2 * side - 1 - place : place;
  };
  return pixels[static_cast<std::size_t>((c * shape.h + mirrored(row, shape.h)) * shape.w +
                                         mirrored(column, shape.w))];
}

TEST(Augment, normalises_each_channel_in_float) {
  const Shape shape{1, 3, 1, 2};
  const Preprocessing steps{Normalise{{0.4914, 0.4822, 0.4465}, {0.2023, 0.1994, 0.2010}}};
  const std::vector<std::uint8_t> pixels = {0, 255, 17, 128, 254, 3};
  const auto out = plain(steps, true, {}, shape, pixels);
  const float means[] = {0.4914F, 0.4822F, 0.4465F};
  const float deviations[] = {0.2023F, 0.1994F, 0.2010F};
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const std::size_t c = i / 2;
    EXPECT_EQ(out[i], (static_cast<float>(pixels[i]) / 255.0F - means[c]) / deviations[c]);
  }
  EXPECT_FLOAT_EQ(out[0], -2.4290657F);
  EXPECT_FLOAT_EQ(out[1], 2.5140879F);
}

TEST(Augment, leaves_pixels_over_255_when_nothing_is_asked) {
  const Shape shape{1, 1, 16, 16};
  const auto pixels = counting(shape);
  const auto out = plain({}, true, {1, 2, 3}, shape, pixels);
  for (std::size_t i = 0; i < out.size(); ++i) {
    EXPECT_EQ(out[i], static_cast<float>(pixels[i]) / 255.0F);
  }
}

TEST(Augment, mirrors_symmetrically_with_the_edge_repeated) {
  // numpy.pad([1, 2, 3, 4], 2, "symmetric") is [2, 1, 1, 2, 3, 4, 4, 3].
  const Shape shape{1, 1, 1, 4};
  std::map<std::vector<int>, int> seen;
  for (std::int64_t id = 0; id < 200; ++id) {
    Preprocessing steps{PadCrop{0, Mode::kSymmetric, Offsets::kInclusive}};
    EXPECT_EQ(pixels_of(plain(steps, true, {1, id, 0}, shape, {1, 2, 3, 4})),
              (std::vector{1, 2, 3, 4}));
  }
  const Shape square{1, 1, 4, 4};
  const std::vector<std::uint8_t> columns = {1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4};
  const Preprocessing steps{PadCrop{2, Mode::kSymmetric, Offsets::kInclusive}};
  for (std::int64_t id = 0; id < 200; ++id) {
    auto row = pixels_of(plain(steps, true, {1, id, 0}, square, columns));
    row.resize(4);
    ++seen[row];
  }
  std::vector<std::vector<int>> rows;
  for (const auto& [row, count] : seen) rows.push_back(row);
  EXPECT_THAT(rows, ::testing::UnorderedElementsAre(
                        std::vector{2, 1, 1, 2}, std::vector{1, 1, 2, 3}, std::vector{1, 2, 3, 4},
                        std::vector{2, 3, 4, 4}, std::vector{3, 4, 4, 3}));
}

TEST(Augment, crops_at_the_drawn_offset_in_every_mode) {
  for (const Mode mode : {Mode::kZero, Mode::kSymmetric}) {
    for (const Offsets offsets : {Offsets::kInclusive, Offsets::kSinga}) {
      for (const Shape shape : {Shape{1, 1, 28, 28}, Shape{1, 3, 5, 9}}) {
        const PadCrop crop{4, mode, offsets};
        const auto pixels = counting(shape);
        const std::uint64_t choices = offsets == Offsets::kInclusive ? 9 : 8;
        for (std::int64_t id = 0; id < 40; ++id) {
          const auto out = pixels_of(plain({crop}, true, {42, id, 3}, shape, pixels));
          const auto words = tensor::philox(
              42, {static_cast<std::uint32_t>(id), 3, tensor::stream_of("pad-crop"), 0});
          const auto row = static_cast<std::int64_t>((words[0] * choices) >> 32);
          const auto column = static_cast<std::int64_t>((words[1] * choices) >> 32);
          std::size_t i = 0;
          for (std::int64_t c = 0; c < shape.c; ++c) {
            for (std::int64_t y = 0; y < shape.h; ++y) {
              for (std::int64_t x = 0; x < shape.w; ++x) {
                ASSERT_EQ(out[i++], expected_pixel(pixels, shape, crop, row, column, c, y, x));
              }
            }
          }
        }
      }
    }
  }
}

// A single bright pixel shows where the crop began.
TEST(Augment, draws_every_offset_about_equally_often_and_singas_never_the_last) {
  const Shape shape{1, 1, 9, 9};
  std::vector<std::uint8_t> pixels(81);
  pixels[4 * 9 + 4] = 255;
  for (const Offsets offsets : {Offsets::kInclusive, Offsets::kSinga}) {
    const Preprocessing steps{PadCrop{4, Mode::kZero, offsets}};
    std::map<int, int> rows;
    std::map<int, int> columns;
    for (std::int64_t id = 0; id < 9000; ++id) {
      const auto out = plain(steps, true, {42, id, 0}, shape, pixels);
      const auto place = static_cast<int>(std::ranges::find(out, 1.0F) - out.begin());
      ASSERT_LT(place, 81);
      ++rows[8 - place / 9];  // the offset
      ++columns[8 - place % 9];
    }
    const int choices = offsets == Offsets::kInclusive ? 9 : 8;
    for (const auto& counts : {rows, columns}) {
      ASSERT_EQ(counts.begin()->first, 0);
      ASSERT_EQ(counts.rbegin()->first, choices - 1);
      for (const auto& [offset, count] : counts) EXPECT_NEAR(count, 9000 / choices, 150) << offset;
    }
  }
}

// numpy.pad([1, 2, 3, 4], 2, ...) by rows of all five places.
TEST(Augment, pads_in_other_ways_and_cuts_other_sizes) {
  const Shape square{1, 1, 4, 4};
  const std::vector<std::uint8_t> columns = {1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4};
  const auto rows_of = [&](const PadCrop& step) {
    std::set<std::vector<int>> rows;
    for (std::int64_t id = 0; id < 200; ++id) {
      Preprocessor preprocessor({step}, square, true);
      std::vector<std::uint8_t> out(static_cast<std::size_t>(preprocessor.result().per_sample()));
      preprocessor.run({1, id, 0}, {square, columns}, out);
      rows.insert({out.begin(), out.begin() + preprocessor.result().w});
    }
    return rows;
  };
  EXPECT_THAT(rows_of({.pad = 2, .mode = Mode::kReflect}),
              ::testing::UnorderedElementsAre(std::vector{3, 2, 1, 2}, std::vector{2, 1, 2, 3},
                                              std::vector{1, 2, 3, 4}, std::vector{2, 3, 4, 3},
                                              std::vector{3, 4, 3, 2}));
  EXPECT_THAT(rows_of({.pad = 0, .size = 3}),
              ::testing::UnorderedElementsAre(std::vector{1, 2, 3}, std::vector{2, 3, 4}));
  EXPECT_THAT(rows_of({.pad = 1, .mode = Mode::kFill, .size = 6, .fill = 9}),
              ::testing::UnorderedElementsAre(std::vector{9, 9, 9, 9, 9, 9}));
  Preprocessor settled({PadCrop{.pad = 1, .size = 2}}, square, false);
  std::vector<std::uint8_t> out(4);
  settled.run({}, {square, columns}, out);
  EXPECT_THAT(out, ::testing::ElementsAre(2, 3, 2, 3));
}

TEST(Augment, flips_half_of_the_images_left_to_right) {
  const Shape shape{1, 2, 2, 3};
  const auto pixels = counting(shape);
  const std::vector<int> same = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const std::vector<int> mirrored = {3, 2, 1, 6, 5, 4, 9, 8, 7, 12, 11, 10};
  int flipped = 0;
  for (std::int64_t id = 0; id < 4000; ++id) {
    const auto out = pixels_of(plain({Flip{}}, true, {42, id, 0}, shape, pixels));
    const auto words =
        tensor::philox(42, {static_cast<std::uint32_t>(id), 0, tensor::stream_of("flip"), 0});
    const bool expected = words[0] >= 0x80000000U;
    ASSERT_EQ(out, expected ? mirrored : same);
    flipped += expected ? 1 : 0;
  }
  EXPECT_NEAR(flipped, 2000, 130);
}

TEST(Augment, alternating_flip_mirrors_each_image_in_every_second_epoch) {
  const Shape shape{1, 1, 1, 2};
  int first = 0;
  for (std::int64_t id = 0; id < 4000; ++id) {
    const auto in = [&](std::int64_t epoch) {
      return pixels_of(plain({AlternatingFlip{}}, true, {42, id, epoch}, shape, {1, 2}));
    };
    const bool mirrored = in(0) == std::vector{2, 1};
    const std::vector<int> other = mirrored ? std::vector{1, 2} : std::vector{2, 1};
    ASSERT_EQ(in(1), other);
    ASSERT_EQ(in(2), in(0));
    ASSERT_EQ(in(7), other);
    first += mirrored ? 1 : 0;
  }
  EXPECT_NEAR(first, 2000, 130);
}

TEST(Augment, draws_anew_for_each_repetition_sample_epoch_and_seed) {
  const Shape shape{1, 1, 1, 2};
  // Two flips undo each other when their draws agree, which happens to half of the samples.
  int mirrored = 0;
  for (std::int64_t id = 0; id < 4000; ++id) {
    const auto out = pixels_of(plain({Flip{}, Flip{}}, true, {42, id, 0}, shape, {1, 2}));
    mirrored += out == std::vector{2, 1} ? 1 : 0;
  }
  EXPECT_NEAR(mirrored, 2000, 130);
  const auto history = [&](auto key_of) {
    std::string text;
    for (int i = 0; i < 64; ++i) {
      text += plain({Flip{}}, true, key_of(i), shape, {0, 255})[0] > 0 ? '1' : '0';
    }
    return text;
  };
  const auto by_sample = history([](int i) { return SampleKey{42, i, 0}; });
  const auto by_epoch = history([](int i) { return SampleKey{42, 0, i}; });
  const auto by_seed =
      history([](int i) { return SampleKey{static_cast<std::uint64_t>(i), 0, 0}; });
  EXPECT_NE(by_sample, by_epoch);
  EXPECT_NE(by_sample, by_seed);
  for (const auto& text : {by_sample, by_epoch, by_seed}) {
    EXPECT_NEAR(static_cast<double>(std::ranges::count(text, '1')), 32.0, 14.0) << text;
  }
}

TEST(Augment, does_nothing_random_in_evaluation) {
  const Shape shape{1, 1, 5, 5};
  const Preprocessing steps{PadCrop{}, Flip{}, Normalise{{0.5}, {0.25}}};
  const auto pixels = counting(shape);
  const Preprocessing normalise{steps.back()};
  for (std::int64_t id = 0; id < 20; ++id) {
    EXPECT_EQ(plain(steps, false, {42, id, 0}, shape, pixels),
              plain(normalise, true, {7, id + 100, 3}, shape, pixels));
  }
}

// One step after another, each pixel by itself.
std::vector<float> specification(const Preprocessing& steps, const SampleKey& key, Shape shape,
                                 std::vector<std::uint8_t> planes) {
  std::map<std::string, int> seen;
  const Normalise* normalise = nullptr;
  for (const Augmentation& step : steps) {
    std::string name(augment::name_of(step));
    if (const int before = seen[name]++; before > 0) name += fmt::format("#{}", before);
    const auto words = tensor::philox(
        key.seed, {static_cast<std::uint32_t>(key.sample_id), static_cast<std::uint32_t>(key.epoch),
                   tensor::stream_of(name), 0});
    const auto* crop = std::get_if<PadCrop>(&step);
    normalise = std::get_if<Normalise>(&step);
    const bool mirrors = std::holds_alternative<Flip>(step) && words[0] >> 31 != 0;
    if (crop == nullptr && !mirrors) continue;
    const auto places = [&](std::uint32_t word) {
      const auto count = static_cast<std::uint64_t>(2 * crop->pad) +
                         (crop->offsets == Offsets::kInclusive ? 1 : 0);
      return static_cast<std::int64_t>((word * count) >> 32);
    };
    const auto before = planes;
    std::size_t i = 0;
    for (std::int64_t c = 0; c < shape.c; ++c) {
      for (std::int64_t y = 0; y < shape.h; ++y) {
        for (std::int64_t x = 0; x < shape.w; ++x, ++i) {
          planes[i] = crop != nullptr
                          ? static_cast<std::uint8_t>(expected_pixel(
                                before, shape, *crop, places(words[0]), places(words[1]), c, y, x))
                          : before[i + static_cast<std::size_t>(shape.w - 1 - 2 * x)];
        }
      }
    }
  }
  std::vector<float> result;
  for (std::size_t i = 0; i < planes.size(); ++i) {
    const std::size_t c = i / static_cast<std::size_t>(shape.h * shape.w);
    const float mean = normalise == nullptr ? 0 : static_cast<float>(normalise->mean[c]);
    const float deviation = normalise == nullptr ? 1 : static_cast<float>(normalise->std[c]);
    result.push_back((static_cast<float>(planes[i]) / 255.0F - mean) / deviation);
  }
  return result;
}

TEST(Augment, agrees_to_the_bit_with_a_loop_over_pixels) {
  const std::vector<Preprocessing> lists = {
      {},
      {Flip{}},
      {PadCrop{4, Mode::kZero, Offsets::kInclusive}},
      {PadCrop{4, Mode::kSymmetric, Offsets::kSinga}, Flip{}},
      {Flip{}, PadCrop{3, Mode::kZero, Offsets::kInclusive}},
      {PadCrop{2, Mode::kZero, Offsets::kInclusive}, Flip{},
       PadCrop{4, Mode::kSymmetric, Offsets::kInclusive}, Flip{},
       PadCrop{1, Mode::kZero, Offsets::kSinga}},
      {Flip{}, Flip{}, Flip{}},
  };
  std::uint32_t noise = 0;
  for (const Shape shape : {Shape{1, 1, 28, 28}, Shape{1, 3, 32, 32}, Shape{1, 2, 5, 7}}) {
    std::vector<std::uint8_t> planes(static_cast<std::size_t>(shape.per_sample()));
    augment::Scratch bytes(planes.size());
    for (const auto& list : lists) {
      for (const bool normalises : {false, true}) {
        Preprocessing steps = list;
        Normalise normalise{{0.4914, 0.4822, 0.4465}, {0.2023, 0.1994, 0.2010}};
        normalise.mean.resize(static_cast<std::size_t>(shape.c));
        normalise.std.resize(static_cast<std::size_t>(shape.c));
        if (normalises) steps.emplace_back(normalise);
        Preprocessor preprocessor(steps, shape, true);
        for (std::int64_t id = 0; id < 60; ++id) {
          for (auto& pixel : planes) {
            pixel = static_cast<std::uint8_t>((noise = noise * 1664525U + 1013904223U) >> 24);
          }
          augment::interleave(planes, shape, bytes);
          const SampleKey key{id % 2 == 0 ? 42U : 0xfedcba9876543210U, id, id % 3};
          const auto out = floats_of(preprocessor, key, {shape, bytes});
          const auto expected = specification(steps, key, shape, planes);
          for (std::size_t i = 0; i < out.size(); ++i) {
            ASSERT_EQ(std::bit_cast<std::uint32_t>(out[i]),
                      std::bit_cast<std::uint32_t>(expected[i]));
          }
        }
      }
    }
  }
}

TEST(Augment, refuses_steps_that_do_not_suit_the_images) {
  const auto error = [&](const Preprocessing& steps) {
    return error_of([&] { Preprocessor(steps, {1, 3, 28, 32}, true); });
  };
  EXPECT_EQ(error({Normalise{{0.5}, {1}}}),
            "65 [data] augment: normalise needs as many mean and std as channels (3), got 1 and 1");
  EXPECT_EQ(error({Normalise{{0, 0, 0}, {1, 1, 1}}, Flip{}}),
            "65 [data] augment: normalise must come last, and once");
  EXPECT_EQ(error({Flip{}, PadCrop{28}}),
            "65 [data] augment: pad 28 must be below the image's side, 28");
  EXPECT_EQ(error({PadCrop{27}, Normalise{{0, 0, 0}, {1, 1, 1}}}), "no error");
}

// The numbers are part of what "same bits" means: a change here changes every run.
TEST(Augment, keeps_its_images_from_version_to_version) {
  const Shape shape{1, 1, 5, 6};
  const auto pixels = counting(shape);
  const std::pair<const char*, Preprocessing> lists[] = {
      {"pad-crop zero inclusive", {PadCrop{2, Mode::kZero, Offsets::kInclusive}}},
      {"pad-crop symmetric singa", {PadCrop{4, Mode::kSymmetric, Offsets::kSinga}}},
      {"flip", {Flip{}}},
      {"pad-crop, flip, pad-crop, flip",
       {PadCrop{1, Mode::kZero, Offsets::kInclusive}, Flip{},
        PadCrop{1, Mode::kSymmetric, Offsets::kInclusive}, Flip{}}},
  };
  std::string text;
  for (const auto& [name, list] : lists) {
    for (std::int64_t id = 0; id < 5; ++id) {
      text += fmt::format("{}, seed 42, sample {}, epoch 1\n", name, id);
      const auto out = pixels_of(plain(list, true, {42, id, 1}, shape, pixels));
      for (std::size_t i = 0; i < out.size(); ++i) {
        text += fmt::format("{:>3}{}", out[i], i % 6 == 5 ? "\n" : "");
      }
    }
  }
  coxswain::test::expect_golden("data/augment.txt", text);
}

}  // namespace
}  // namespace coxswain::data
