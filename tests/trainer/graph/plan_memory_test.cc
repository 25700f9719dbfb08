#include "trainer/graph/plan_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/support/test_flags.h"
#include "trainer/graph/models/models.h"
#include "trainer/graph/passes.h"

namespace coxswain::graph {
namespace {

bool overlap_in_time(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

void expect_disjoint(const std::vector<Lifetime>& lifetimes, const MemoryPlan& plan) {
  for (std::size_t i = 0; i < lifetimes.size(); ++i) {
    EXPECT_EQ(plan.offsets[i] % 64, 0);
    EXPECT_GE(plan.offsets[i], 0);
    EXPECT_LE(plan.offsets[i] + lifetimes[i].bytes, plan.bytes);
    for (std::size_t j = 0; j < i; ++j) {
      if (!overlap_in_time(lifetimes[i], lifetimes[j])) continue;
      const bool apart = plan.offsets[i] + lifetimes[i].bytes <= plan.offsets[j] ||
                         plan.offsets[j] + lifetimes[j].bytes <= plan.offsets[i];
      EXPECT_TRUE(apart) << i << " and " << j;
    }
  }
}

TEST(PlanMemory, never_puts_two_living_buffers_in_one_place) {
  const std::uint64_t first = test::flags().seed_given ? test::flags().seed : 1;
  const std::uint64_t count = test::flags().seed_given ? 1 : 200;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    std::vector<Lifetime> lifetimes(random() % 40);
    for (Lifetime& lifetime : lifetimes) {
      lifetime.bytes = static_cast<std::int64_t>(random() % 5000);
      lifetime.first = static_cast<int>(random() % 30);
      lifetime.last = lifetime.first + static_cast<int>(random() % 10);
    }
    expect_disjoint(lifetimes, plan_memory(lifetimes));
  }
}

TEST(PlanMemory, reuses_memory_that_is_free_again) {
  const MemoryPlan plan = plan_memory({{100, 0, 1}, {100, 1, 2}, {100, 2, 3}});
  EXPECT_EQ(plan.bytes, 256);
  EXPECT_EQ(plan.offsets[0], plan.offsets[2]);
}

TEST(PlanMemory, of_nothing_is_empty) {
  EXPECT_EQ(plan_memory({}).bytes, 0);
  EXPECT_EQ(plan_memory({{0, 0, 5}}).bytes, 0);
}

// One buffer an edge, from its writer to its last reader; the input lives throughout.
std::vector<Lifetime> lifetimes_of(const Program& program) {
  const int last_step = static_cast<int>(program.steps.size()) - 1;
  std::vector<Lifetime> result(program.edges.size(), Lifetime{0, last_step, 0});
  for (int index = 0; index <= last_step; ++index) {
    const Step& step = program.steps[static_cast<std::size_t>(index)];
    for (const std::vector<int>* edges : {&step.reads, &step.writes}) {
      for (const int e : *edges) {
        Lifetime& lifetime = result[static_cast<std::size_t>(e)];
        const Edge& edge = program.edges[static_cast<std::size_t>(e)];
        lifetime.bytes = edge.shape.elements() * tensor::size_of(edge.type);
        lifetime.first = std::min(lifetime.first, index);
        lifetime.last = std::max(lifetime.last, index);
      }
    }
  }
  result[0].first = 0;
  return result;
}

std::int64_t peak_of_living(const std::vector<Lifetime>& lifetimes, int steps) {
  std::int64_t peak = 0;
  for (int step = 0; step < steps; ++step) {
    std::int64_t sum = 0;
    for (const Lifetime& l : lifetimes) sum += l.first <= step && step <= l.last ? l.bytes : 0;
    peak = std::max(peak, sum);
  }
  return peak;
}

TEST(PlanMemory, stays_within_a_fifth_of_the_least_possible_for_every_model) {
  for (const ModelInfo& info : models()) {
    for (const Mode mode : {Mode::kTraining, Mode::kEvaluation}) {
      const Program program = compile(build_model(info.model, info.input, info.classes, 0), 16,
                                      Precision::kBf16, mode);
      const std::vector<Lifetime> lifetimes = lifetimes_of(program);
      const MemoryPlan plan = plan_memory(lifetimes);
      const std::int64_t least = peak_of_living(lifetimes, static_cast<int>(program.steps.size()));
      EXPECT_LE(static_cast<double>(plan.bytes), 1.2 * static_cast<double>(least))
          << word(info.model);
      expect_disjoint(lifetimes, plan);
    }
  }
}

}  // namespace
}  // namespace coxswain::graph
