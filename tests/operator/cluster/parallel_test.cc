#include "operator/cluster/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

namespace coxswain::cluster {
namespace {

TEST(Parallel, makes_every_call_once_with_any_number_of_helpers) {
  for (const int helpers : {0, 1, 3, 16}) {
    Parallel parallel(helpers);
    for (const int count : {0, 1, 2, 50}) {
      std::vector<std::atomic<int>> made(static_cast<std::size_t>(count));
      std::vector<std::function<void()>> calls;
      for (auto& one : made) calls.emplace_back([&one] { ++one; });
      parallel.run(calls);
      for (const auto& one : made) EXPECT_EQ(one, 1);
    }
  }
}

TEST(Parallel, serves_several_callers_at_once) {
  Parallel parallel(2);
  std::atomic<int> made = 0;
  {
    std::vector<std::jthread> callers;
    for (int i = 0; i < 4; ++i)
      callers.emplace_back([&] {
        for (int round = 0; round < 100; ++round)
          parallel.run(std::vector<std::function<void()>>(5, [&] { ++made; }));
      });
  }
  EXPECT_EQ(made, 4 * 100 * 5);
}

TEST(Parallel, makes_all_calls_and_then_throws_what_the_first_threw) {
  Parallel parallel(2);
  std::atomic<int> made = 0;
  std::vector<std::function<void()>> calls(8, [&] { ++made; });
  calls[3] = [] { throw std::runtime_error("third"); };
  EXPECT_THROW(parallel.run(calls), std::runtime_error);
  EXPECT_EQ(made, 7);
}

}  // namespace
}  // namespace coxswain::cluster
