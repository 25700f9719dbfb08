#include "trainer/tensor/parameter_layout.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "trainer/tensor/shape.h"

namespace coxswain::tensor {
namespace {

Segment segment(std::string name, SegmentKind kind, std::vector<std::int64_t> dims,
                std::int64_t padding = 0) {
  Segment s{std::move(name), kind, std::move(dims)};
  s.stored = s.elements() + padding;
  return s;
}

ParameterLayout example() {
  return pack({segment("bn1.running_mean", SegmentKind::kStatistic, {20}),
               segment("fc.bias", SegmentKind::kBias, {10}),
               segment("conv1.weight", SegmentKind::kWeight, {20, 1, 5, 5}, 12),
               segment("bn1.gamma", SegmentKind::kGamma, {16})});
}

TEST(ParameterLayout, puts_segments_one_after_another_on_cache_lines) {
  const ParameterLayout layout = example();
  ASSERT_EQ(layout.segments.size(), 5U);
  const std::vector<std::int64_t> offsets = {0, 32, 48, 560, 576};
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    EXPECT_EQ(layout.segments[i].offset, offsets[i]) << layout.segments[i].name;
  }
  EXPECT_EQ(layout.size(), 592);
}

TEST(ParameterLayout, ends_with_the_control_segment) {
  const ParameterLayout layout = example();
  EXPECT_EQ(layout.control(), layout.segments.back());
  EXPECT_EQ(layout.control().name, "control");
  EXPECT_EQ(layout.control().kind, SegmentKind::kControl);
  EXPECT_EQ(layout.control().stored, kControlFloats);
  EXPECT_EQ(pack({}).size(), kControlFloats);
  EXPECT_EQ(ParameterLayout{}.size(), 0);
}

TEST(ParameterLayout, counts_logical_trainable_elements_alone) {
  EXPECT_EQ(example().parameter_count(), 10 + 500 + 16);
  EXPECT_FALSE(is_trainable(SegmentKind::kStatistic));
  EXPECT_FALSE(is_trainable(SegmentKind::kControl));
  EXPECT_TRUE(is_trainable(SegmentKind::kBeta));
}

TEST(ParameterLayout, finds_segments_by_name) {
  EXPECT_EQ(example().find("conv1.weight"), 2);
  EXPECT_EQ(example().find("control"), 4);
  EXPECT_EQ(example().find("conv2.weight"), std::nullopt);
}

TEST(ParameterLayout, has_a_hash_that_every_field_changes) {
  const std::function<void(ParameterLayout&)> changes[] = {
      [](ParameterLayout&) {},
      [](ParameterLayout& l) { l.segments[2].name = "conv2.weight"; },
      [](ParameterLayout& l) { l.segments[2].kind = SegmentKind::kBias; },
      [](ParameterLayout& l) {
        l.segments[2].dims = {20, 5, 5, 1};
      },
      [](ParameterLayout& l) { l.segments[2].dims = {500}; },
      [](ParameterLayout& l) { l.segments[2].offset += 16; },
      [](ParameterLayout& l) { l.segments[2].stored += 1; },
      [](ParameterLayout& l) { l.segments[2].layout = "ABcd16b"; },
      [](ParameterLayout& l) { std::swap(l.segments[0], l.segments[1]); },
      [](ParameterLayout& l) { l.segments.pop_back(); },
  };
  std::set<std::uint64_t> hashes;
  for (const auto& change : changes) {
    ParameterLayout layout = example();
    change(layout);
    hashes.insert(hash_of(layout));
  }
  EXPECT_EQ(hashes.size(), std::size(changes));
  EXPECT_EQ(hash_of(example()), hash_of(example()));
}

TEST(Shape, counts_and_prints) {
  const Shape shape{64, 20, 24, 25};
  EXPECT_EQ(shape.elements(), 64 * 20 * 24 * 25);
  EXPECT_EQ(shape.per_sample(), 20 * 24 * 25);
  EXPECT_EQ(to_text(shape), "64x20x24x25");
  EXPECT_EQ(to_text({}), "1x1x1x1");
}

}  // namespace
}  // namespace coxswain::tensor
