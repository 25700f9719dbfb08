#include "tests/trainer/ps/sync_world.h"

#include <gtest/gtest.h>

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
