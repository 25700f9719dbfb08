#include "tests/trainer/ps/sync_world.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

namespace coxswain::ps::sync_world {
namespace {

TEST(SyncTraining, comes_to_the_bits_of_one_process_whatever_connections_break) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const auto reduction = seed % 2 == 0 ? comm::in_rank_order(1 + static_cast<int>(seed / 2 % 3))
                                         : comm::halving_tree(8, 3);
    World world(1 + static_cast<int>(seed / 3 % 3), reduction, seed);
    EXPECT_EQ(world.run(seed % 4 == 0 ? 0 : 10, 0), std::nullopt);
  }
}

TEST(SyncTraining, loses_nothing_with_a_server_that_dies_and_comes_back_empty) {
  int kills = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const auto reduction = comm::in_rank_order(1 + static_cast<int>(seed % 3));
    World world(2 + static_cast<int>(seed / 3 % 3), reduction, seed);
    EXPECT_EQ(world.run(seed % 2 == 0 ? 0 : 5, 3), std::nullopt);
    kills += world.kills;
  }
  EXPECT_GT(kills, 60);
}

constexpr std::int64_t kFirstGradient = 48;  // after small_layout()'s statistics

// What one process comes to whose gradients went through a codec, block by block.
Whole whole_through(const compress::Codec& codec, int servers, std::int64_t exact_from = kSteps) {
  Whole whole(plan_of(1));
  whole.pushed = [codec, exact_from, map = plan_of(servers).map,
                  residuals = std::map<int, Floats>()](std::int64_t step, int part) mutable {
    Floats gradients = gradients_of(step, part);
    Floats& residual = residuals[part];
    residual.resize(gradients.size());
    const std::int64_t end = std::ssize(gradients) - tensor::kControlFloats;
    for (const Piece& block : map.cut(kFirstGradient, end - kFirstGradient)) {
      const auto of = [&](Floats& all) {
        return std::span(all).subspan(static_cast<std::size_t>(block.offset),
                                      static_cast<std::size_t>(block.length));
      };
      const compress::Codec now = step < exact_from ? codec : compress::Codec{};
      std::vector<std::byte> bytes(
          static_cast<std::size_t>(compress::encoded_bytes(now, block.length)));
      compress::encode(now, of(gradients), of(residual), bytes, of(residual));
      compress::decode(now, bytes, of(gradients));
    }
    return gradients;
  };
  return whole;
}

TEST(SyncTraining, comes_to_the_bits_of_one_process_through_every_codec) {
  int kills = 0;
  unsigned seed = 0;
  for (const auto& [kind, word] : words_of(Compression{}))
    for (const int servers : {1, 2, 3, 2}) {
      SCOPED_TRACE(fmt::format("{}: {} servers, seed {}", word, servers, ++seed));
      const compress::Codec codec{.kind = kind, .threshold = 0.7F};
      const auto reduction = comm::in_rank_order(1 + static_cast<int>(seed % 3));
      World world(servers, reduction, seed, codec);
      const bool disturbed = servers > 1;
      EXPECT_EQ(world.run(disturbed ? 10 : 0, disturbed ? 3 : 0, whole_through(codec, servers)),
                std::nullopt);
      kills += world.kills;
    }
  EXPECT_GT(kills, 10);
}

TEST(SyncTraining, goes_on_without_a_codec_that_all_workers_leave_at_one_step) {
  for (unsigned seed = 1; seed < 10; ++seed) {
    SCOPED_TRACE(seed);
    const compress::Codec codec{.kind = Compression::kTwoBit, .threshold = 0.7F};
    const auto reduction = comm::in_rank_order(2);
    World world(2, reduction, seed, codec);
    for (const auto& worker : world.workers) worker->exact_from = 2;
    EXPECT_EQ(world.run(10, 3, whole_through(codec, 2, 2)), std::nullopt);
  }
}

TEST(SyncTraining, gives_up_when_two_neighbours_come_back_at_once) {
  const auto reduction = comm::in_rank_order(2);
  World world(3, reduction, 1);
  bool all_begun = false;
  while (!world.all_safe()) {
    world.workers[0]->act(all_begun);
    world.network.happen();
  }
  world.start_server(0);
  world.start_server(1);
  for (int i = 0; i < 10000; ++i) world.network.happen();
  ASSERT_TRUE(world.server(0).refused());
  EXPECT_EQ(world.server(0).refused()->code, ExitCode::kPeerLost);
  EXPECT_EQ(world.server(0).refused()->why,
            "what server 0 held is lost, since server 1 came back, too: the job goes on from its "
            "checkpoint");
}

}  // namespace
}  // namespace coxswain::ps::sync_world
