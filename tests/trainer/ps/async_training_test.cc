#include "tests/trainer/ps/async_world.h"

#include <gtest/gtest.h>

namespace coxswain::ps::async_world {
namespace {

struct Case {
  const char* name;
  int servers;
  std::optional<std::int64_t> staleness;
  std::int64_t window;
  std::size_t breaks;
  std::size_t deaths;
  bool old_live = false;
};

TEST(AsyncTraining, makes_every_step_once) {
  const Case cases[] = {
      {"one server", 1, std::nullopt, 1 << 20, 0, 0},
      {"three servers", 3, std::nullopt, 1 << 20, 0, 0},
      {"room for one step", 2, std::nullopt, 1, 0, 0},
      {"lockstep", 2, 0, 1 << 20, 0, 0},
      {"bounded", 2, 3, 1, 0, 0},
      {"connections break", 3, std::nullopt, 1 << 20, 2000, 0},
      {"connections break, with a bound and room for one step", 2, 1, 1, 2000, 0},
      {"workers die", 2, std::nullopt, 1 << 20, 0, 4000},
      {"all of it", 2, 2, 1, 4000, 6000},
      {"workers that were replaced live on", 2, std::nullopt, 1 << 20, 0, 4000, true},
  };
  for (const Case& one : cases)
    for (unsigned seed = 0; seed < 20; ++seed) {
      SCOPED_TRACE(testing::Message() << one.name << ", seed " << seed);
      World world(one.servers, one.staleness, one.window, seed);
      ASSERT_EQ(world.run(one.breaks, one.deaths, one.old_live), std::nullopt);
      EXPECT_EQ(world.servers[0]->step(), kSteps);
      // Who came after the end knows nothing of the weights.
      if (one.deaths == 0) world.expect_steps(kSteps);
    }
}

TEST(AsyncTraining, stops_after_what_was_leased) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    World world(2, std::nullopt, 1 << 20, seed, 10);
    ASSERT_EQ(world.run(2000, 0), std::nullopt);
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

}  // namespace
}  // namespace coxswain::ps::async_world
