#include "trainer/ps/shards.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace coxswain::ps {
namespace {

tensor::ParameterLayout layout_of(std::int64_t weights) {
  return tensor::pack({{.name = "w", .dims = {weights}, .stored = (weights + 15) / 16 * 16}});
}

// mlp, cifar-resnet8, singa-cnn, keras-cnn, d2l-resnet18, resnet50.
constexpr std::int64_t kModels[] = {109'386, 78'109, 431'080, 1'199'882, 11'176'970, 25'557'032};

TEST(ShardMap, loads_no_server_3_percent_above_the_mean) {
  for (const std::int64_t weights : kModels) {
    const auto layout = layout_of(weights);
    for (int servers = 1; servers <= 32; ++servers) {
      const ShardMap map(layout, servers);
      std::int64_t total = 0, most = 0;
      for (int server = 0; server < servers; ++server) {
        total += map.load(server);
        most = std::max(most, map.load(server));
      }
      EXPECT_EQ(total, layout.size());
      EXPECT_LE(static_cast<double>(most * servers), 1.03 * static_cast<double>(total))
          << weights << " weights on " << servers << " servers";
    }
  }
}

TEST(ShardMap, gives_each_float_one_place) {
  for (const std::int64_t weights : {1, 1000, 431'080}) {
    const auto layout = layout_of(weights);
    for (const int servers : {1, 2, 3, 7}) {
      const ShardMap map(layout, servers);
      std::map<int, std::int64_t> next;  // of each server's own buffer
      std::int64_t at = 0;
      for (const Piece& piece : map.cut(0, layout.size())) {
        EXPECT_EQ(piece.offset, at);
        EXPECT_EQ(piece.local, next[piece.server]);
        EXPECT_LE(piece.length, map.block());
        at += piece.length;
        next[piece.server] += piece.length;
      }
      EXPECT_EQ(at, layout.size());
      for (int server = 0; server < servers; ++server) EXPECT_EQ(next[server], map.load(server));
    }
  }
}

TEST(ShardMap, cuts_a_range_where_the_whole_is_cut) {
  const auto layout = layout_of(431'080);
  const ShardMap map(layout, 3);
  for (const std::int64_t offset : {std::int64_t{0}, std::int64_t{5}, map.block() - 1}) {
    const std::int64_t length = 3 * map.block() + 7;
    std::int64_t at = offset;
    for (const Piece& piece : map.cut(offset, length)) {
      const auto whole = map.of_server(piece.server);
      const auto around = std::find_if(whole.begin(), whole.end(), [&](const Piece& one) {
        return one.offset <= piece.offset && piece.offset < one.offset + one.length;
      });
      ASSERT_NE(around, whole.end());
      EXPECT_EQ(piece.local - around->local, piece.offset - around->offset);
      EXPECT_EQ(piece.offset, at);
      at += piece.length;
    }
    EXPECT_EQ(at, offset + length);
  }
}

TEST(ShardMap, leaves_the_control_segment_whole) {
  for (const std::int64_t weights : kModels) {
    const auto layout = layout_of(weights);
    for (int servers = 1; servers <= 32; ++servers) {
      const ShardMap map(layout, servers);
      const auto pieces = map.cut(layout.control().offset, tensor::kControlFloats);
      ASSERT_EQ(pieces.size(), 1U);
      EXPECT_EQ(pieces[0].server, map.control_server());
    }
  }
}

}  // namespace
}  // namespace coxswain::ps
