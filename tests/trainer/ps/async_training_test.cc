#include "tests/trainer/ps/async_world.h"

#include <gtest/gtest.h>

namespace coxswain::ps::async_world {
namespace {

struct Case {
  const char* name;
  int servers;
  std::optional<std::int64_t> staleness;
  std::int64_t window;
  World::Troubles troubles = {};
};

TEST(AsyncTraining, makes_every_step_once) {
  const Case cases[] = {
      {"one server", 1, std::nullopt, 1 << 20},
      {"three servers", 3, std::nullopt, 1 << 20},
      {"room for one step", 2, std::nullopt, 1},
      {"lockstep", 2, 0, 1 << 20},
      {"bounded", 2, 3, 1},
      {"connections break", 3, std::nullopt, 1 << 20, {.breaks = 2000}},
      {"connections break, with a bound and room for one step", 2, 1, 1, {.breaks = 2000}},
      {"workers die", 2, std::nullopt, 1 << 20, {.deaths = 4000}},
      {"workers that were replaced live on",
       2,
       std::nullopt,
       1 << 20,
       {.deaths = 4000, .old_live = true}},
      {"servers die", 3, std::nullopt, 1 << 20, {.kills = 1000}},
      {"servers die, with a bound and room for one step", 2, 1, 1, {.kills = 1000}},
      {"servers that were replaced live on",
       2,
       std::nullopt,
       1 << 20,
       {.kills = 1000, .old_live = true}},
      {"all of it", 2, 2, 1, {.breaks = 4000, .deaths = 6000, .kills = 3000}},
  };
  for (const Case& one : cases) {
    int kills = 0;
    for (unsigned seed = 0; seed < 20; ++seed) {
      SCOPED_TRACE(testing::Message() << one.name << ", seed " << seed);
      World world(one.servers, one.staleness, one.window, seed);
      ASSERT_EQ(world.run(one.troubles), std::nullopt);
      EXPECT_EQ(world.servers[0]->step(), kSteps);
      // Who came after the end knows nothing of the weights.
      if (one.troubles.deaths == 0) world.expect_steps(kSteps);
      kills += world.kills;
    }
    EXPECT_GE(kills, one.troubles.kills > 0 ? 40 : 0) << one.name;
  }
}

TEST(AsyncTraining, stops_after_what_was_leased) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    World world(2, std::nullopt, 1 << 20, seed, 10);
    ASSERT_EQ(world.run({.breaks = 2000, .kills = seed % 2 == 0 ? 0U : 1000U}), std::nullopt);
    const std::int64_t done = world.workers.at(0)->base();
    EXPECT_GE(done, 10);
    EXPECT_LT(done, kSteps);
    world.expect_steps(done);
  }
}

// Nobody replaces it, and the bound does not wait for it.
TEST(AsyncTraining, goes_on_without_a_worker) {
  World world(2, 0, 1, 1);
  for (int turn = 0; world.servers[0]->step() < 5; ++turn) {
    ASSERT_LT(turn, 1'000'000);
    world.network.happen();
    world.workers.at(turn % kWorkers)->act();
  }
  world.network.remove("worker 2");
  world.workers.erase(2);
  for (int turn = 0; !world.is_done(); ++turn) {
    ASSERT_LT(turn, 1'000'000);
    world.network.happen();
    world.workers.at(turn % 2)->act();
  }
  world.expect_steps(kSteps);
}

TEST(AsyncTraining, gives_up_when_two_neighbours_come_back_at_once) {
  World world(3, std::nullopt, 1 << 20, 1);
  for (int turn = 0; !world.all_safe(); ++turn) {
    ASSERT_LT(turn, 100'000);
    world.network.happen();
    world.workers.at(turn % kWorkers)->act();
  }
  world.start_server(0);
  world.start_server(1);
  for (int i = 0; i < 10'000; ++i) world.network.happen();
  ASSERT_TRUE(world.servers[0]->refused());
  EXPECT_EQ(world.servers[0]->refused()->code, ExitCode::kPeerLost);
}

}  // namespace
}  // namespace coxswain::ps::async_world
