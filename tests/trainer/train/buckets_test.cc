#include "trainer/train/buckets.h"

#include <gtest/gtest.h>

#include <set>

namespace coxswain::train {
namespace {

tensor::ParameterLayout layout(const std::vector<std::int64_t>& sizes) {
  std::vector<tensor::Segment> segments;
  for (const std::int64_t size : sizes) {
    segments.push_back({"s" + std::to_string(segments.size()),
                        tensor::SegmentKind::kWeight,
                        {size},
                        0,
                        size,
                        "canonical"});
  }
  return tensor::pack(segments);
}

TEST(Buckets, cover_the_buffer_once_in_order_without_cutting_a_segment) {
  const auto map = layout({100, 5, 3000, 17, 1, 64});
  std::set<std::int64_t> starts;
  for (const auto& segment : map.segments) starts.insert(segment.offset);
  for (const std::int64_t bytes : {1, 256, 4096, 1 << 30}) {
    std::int64_t next = 0;
    for (const Range& bucket : make_buckets(map, bytes)) {
      EXPECT_EQ(bucket.offset, next);
      EXPECT_TRUE(starts.contains(bucket.offset));
      EXPECT_GT(bucket.length, 0);
      next = bucket.end();
    }
    EXPECT_EQ(next, map.size());
  }
}

TEST(Buckets, close_when_they_are_full) {
  EXPECT_EQ(make_buckets(layout({1024, 16, 16, 1024}), 4096).size(), 3U);
  EXPECT_EQ(make_buckets(layout({1024, 16, 16, 1024}), 1 << 20).size(), 1U);
}

TEST(Buckets, balance_the_cost_of_a_message_against_waiting) {
  // sqrt(40 us * 44.7 MB * 4 GB/s) = 2.67 MB
  EXPECT_NEAR(static_cast<double>(best_bucket_bytes(44'700'000, 40e-6, 1 / 4e9)), 2.67e6, 0.01e6);
  EXPECT_EQ(best_bucket_bytes(312'000, 1e-9, 1e-9), 64 << 10) << "never tiny";
  EXPECT_EQ(best_bucket_bytes(312'000, 1, 1e-9), 312'000) << "never more than the model";
}

TEST(Buckets, end_where_blocks_do_for_a_codec) {
  const std::vector<Range> ranges = {{0, 5}, {5, 6}, {11, 2}, {13, 20}, {33, 2}};
  EXPECT_EQ(to_whole_blocks(ranges, 10), (std::vector<Range>{{0, 10}, {10, 10}, {20, 15}}));
  EXPECT_EQ(to_whole_blocks(ranges, 100), (std::vector<Range>{{0, 35}}));
  EXPECT_EQ(to_whole_blocks(ranges, 1), ranges);
}

}  // namespace
}  // namespace coxswain::train
