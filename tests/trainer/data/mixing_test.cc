#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/trainer/data/data_files.h"
#include "trainer/data/data_loader.h"

namespace coxswain::data {
namespace {

using augment::Cutmix;
using augment::Flip;
using augment::Mixup;
using augment::Normalise;
using coxswain::test::error_of;
using ::testing::ElementsAre;

constexpr tensor::Shape kShape{1, 3, 9, 11};

std::vector<std::uint8_t> all(std::uint8_t value) {
  return std::vector<std::uint8_t>(static_cast<std::size_t>(kShape.per_sample()), value);
}

TEST(Mixing, takes_the_weighted_mean_of_pixels) {
  const Preprocessor preprocessor({Mixup{0.4}}, kShape, true);
  std::vector<std::uint8_t> own = all(0);
  std::vector<std::uint8_t> partner = all(0);
  for (std::size_t i = 0; i < own.size(); ++i) {
    own[i] = static_cast<std::uint8_t>(i * 7 % 256);
    partner[i] = static_cast<std::uint8_t>(255 - i * 5 % 256);
  }
  std::set<float> shares;
  for (std::int64_t id = 0; id < 40; ++id) {
    std::vector<std::uint8_t> image = own;
    const double share = preprocessor.mix({42, id, 1}, partner, image);
    shares.insert(static_cast<float>(share));
    for (std::size_t i = 0; i < own.size(); ++i) {
      EXPECT_NEAR(image[i], share * own[i] + (1 - share) * partner[i], 0.501) << id << ", " << i;
    }
  }
  EXPECT_GT(shares.size(), 30U);
}

TEST(Mixing, cuts_a_rectangle_and_shares_by_its_pixels) {
  const Preprocessor preprocessor({Cutmix{}}, kShape, true);
  const double pixels = static_cast<double>(kShape.h * kShape.w);
  double sum = 0;
  constexpr int kSamples = 400;
  for (std::int64_t id = 0; id < kSamples; ++id) {
    std::vector<std::uint8_t> image = all(1);
    const double share = preprocessor.mix({42, id, 1}, all(2), image);
    std::int64_t top = kShape.h, bottom = -1, left = kShape.w, right = -1, count = 0;
    for (std::int64_t i = 0; i < kShape.h * kShape.w; ++i) {
      const auto at = static_cast<std::size_t>(3 * i);
      EXPECT_TRUE(image[at] == image[at + 1] && image[at] == image[at + 2]);
      if (image[at] == 1) continue;
      ++count;
      top = std::min(top, i / kShape.w);
      bottom = std::max(bottom, i / kShape.w);
      left = std::min(left, i % kShape.w);
      right = std::max(right, i % kShape.w);
    }
    EXPECT_NEAR(share, 1 - static_cast<double>(count) / pixels, 1e-6);
    if (count > 0) {
      EXPECT_EQ(count, (bottom - top + 1) * (right - left + 1));
    }
    sum += share;
  }
  // Of Beta(1, 1) half, and more than that since a part lies outside.
  EXPECT_GT(sum / kSamples, 0.5);
  EXPECT_LT(sum / kSamples, 0.8);
}

TEST(Mixing, draws_of_beta_with_its_mean_and_variance) {
  for (const double alpha : {0.01, 0.2, 1.0, 4.0, 100.0}) {
    double sum = 0;
    double squares = 0;
    constexpr int kDraws = 20000;
    for (int i = 0; i < kDraws; ++i) {
      const double x = augment::beta_number(alpha, {{42, i, 0}, 7});
      ASSERT_TRUE(x >= 0 && x <= 1);
      sum += x;
      squares += (x - 0.5) * (x - 0.5);
    }
    const double variance = 1 / (4 * (2 * alpha + 1));
    EXPECT_NEAR(sum / kDraws, 0.5, 5 * std::sqrt(variance / kDraws)) << alpha;
    EXPECT_NEAR(squares / kDraws, variance, 0.05 * variance) << alpha;
  }
}

struct Mixed {
  std::vector<std::uint8_t> images;
  std::vector<std::int64_t> ids;
  std::vector<std::int32_t> labels;
  std::vector<std::int32_t> partners;
  std::vector<float> shares;
  bool operator==(const Mixed&) const = default;
};

// A step of ten samples, cut at these rows.
Mixed step_of(const Preprocessing& steps, const std::vector<std::size_t>& ends, int workers) {
  const auto dataset = make_synthetic({1, 1, 8, 8}, 10, 100, 3);
  const std::vector<std::int64_t> ids{5, 90, 17, 3, 44, 8, 61, 72, 9, 33};
  std::size_t begin = 0;
  std::size_t next = 0;
  DataLoader loader(*dataset, {steps, true, 42, 3, workers}, [&]() -> std::optional<BatchRequest> {
    if (next == ends.size()) return std::nullopt;
    const std::size_t end = ends[next++];
    BatchRequest request{{ids.begin() + static_cast<std::ptrdiff_t>(begin),
                          ids.begin() + static_cast<std::ptrdiff_t>(end)},
                         2,
                         0,
                         begin == 0 ? ids.back() : ids[begin - 1]};
    begin = end;
    return request;
  });
  Mixed mixed;
  const auto append = [](auto& to, const auto& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  while (const HostBatch* batch = loader.next()) {
    append(mixed.images, batch->images);
    append(mixed.ids, batch->sample_ids);
    append(mixed.labels, batch->labels);
    append(mixed.partners, batch->partner_labels);
    append(mixed.shares, batch->shares);
  }
  EXPECT_EQ(mixed.ids, ids);
  return mixed;
}

TEST(Mixing, gives_each_sample_the_one_before_it_as_its_partner) {
  const auto dataset = make_synthetic({1, 1, 8, 8}, 10, 100, 3);
  const Mixed mixed = step_of({Mixup{}}, {10}, 1);
  EXPECT_EQ(mixed.partners[0], dataset->label(33));
  for (std::size_t i = 1; i < 10; ++i) EXPECT_EQ(mixed.partners[i], mixed.labels[i - 1]);
  augment::Scratch scratch;
  const auto bytes = [&](std::int64_t id) {
    const augment::Image image = dataset->read(id, scratch);
    return std::vector<std::uint8_t>(image.bytes.begin(), image.bytes.end());
  };
  for (std::size_t i = 0; i < 10; ++i) {
    const auto own = bytes(mixed.ids[i]);
    const auto partner = bytes(mixed.ids[(i + 9) % 10]);
    const double share = mixed.shares[i];
    for (std::size_t p = 0; p < 64; ++p) {
      EXPECT_NEAR(mixed.images[64 * i + p], share * own[p] + (1 - share) * partner[p], 0.501);
    }
  }
}

TEST(Mixing, gives_the_same_bits_however_a_step_is_cut_and_on_any_number_of_threads) {
  for (const Preprocessing& steps :
       std::vector<Preprocessing>{{Flip{}, Mixup{}},
                                  {Flip{}, Cutmix{}},
                                  {Flip{}, Mixup{}, Cutmix{}, Normalise{{0}, {1}}}}) {
    const Mixed whole = step_of(steps, {10}, 1);
    for (const int workers : {1, 3, 8}) {
      EXPECT_EQ(step_of(steps, {10}, workers), whole);
      EXPECT_EQ(step_of(steps, {1, 2, 7, 10}, workers), whole);
      EXPECT_EQ(step_of(steps, {0, 5, 5, 10}, workers), whole);
    }
  }
}

TEST(Mixing, of_both_gives_each_sample_to_one) {
  const auto dataset = make_synthetic({1, 1, 8, 8}, 10, 100, 3);
  const Mixed mixup = step_of({Mixup{}}, {10}, 1);
  const Mixed cutmix = step_of({Cutmix{}}, {10}, 1);
  const Mixed both = step_of({Mixup{}, Cutmix{}}, {10}, 1);
  int mixed_up = 0;
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_TRUE(both.shares[i] == mixup.shares[i] || both.shares[i] == cutmix.shares[i]) << i;
    if (both.shares[i] == mixup.shares[i]) ++mixed_up;
  }
  EXPECT_THAT(mixed_up, ::testing::AllOf(::testing::Gt(0), ::testing::Lt(10)));
}

TEST(Mixing, is_of_training_alone) {
  const auto dataset = make_synthetic({1, 1, 8, 8}, 10, 100, 3);
  bool asked = false;
  DataLoader loader(*dataset, {{Mixup{}, Cutmix{}}, false, 42},
                    [&]() -> std::optional<BatchRequest> {
                      if (std::exchange(asked, true)) return std::nullopt;
                      return BatchRequest{{4, 5}, 0, 3};
                    });
  const HostBatch* batch = loader.next();
  ASSERT_NE(batch, nullptr);
  EXPECT_TRUE(batch->shares.empty() && batch->partner_labels.empty());
  augment::Scratch scratch;
  const augment::Image image = dataset->read(4, scratch);
  EXPECT_TRUE(std::equal(image.bytes.begin(), image.bytes.end(), batch->images.begin()));
}

TEST(Mixing, must_come_last_and_once) {
  const auto error = [](const Preprocessing& steps) {
    return error_of([&] { Preprocessor(steps, {1, 3, 28, 28}, true); });
  };
  EXPECT_EQ(error({Mixup{}, Flip{}}),
            "65 [data] augment: mixup and cutmix must come last, before normalise");
  EXPECT_EQ(error({Cutmix{}, Cutmix{}}), "65 [data] augment: mixup, and cutmix, at most once each");
  EXPECT_EQ(error({Flip{}, Cutmix{}, Mixup{}, Normalise{{0, 0, 0}, {1, 1, 1}}}), "no error");
}

}  // namespace
}  // namespace coxswain::data
