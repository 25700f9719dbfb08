#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cuda_host/device.h"
#include "tests/support/model_run.h"
#include "trainer/backend/cuda/cuda_backend.h"
#include "trainer/graph/graph.h"

// The engines of a convolution, which host_products.cc tells how long they take.
namespace coxswain::test {
namespace {

using backend::AlgorithmTimes;
using testing::Pair;
using testing::UnorderedElementsAre;

// Two convolutions of one shape behind another one.
graph::Graph three_convolutions() {
  constexpr auto kInit = graph::WeightInit::kXavierUniform;
  graph::Builder b({1, 2, 6, 6});
  int x = b.conv(0, "a", 4, 3, 1, 1, false, kInit);
  x = b.conv(x, "b", 4, 3, 1, 1, false, kInit);
  x = b.conv(x, "c", 4, 3, 1, 1, false, kInit);
  return b.finish(b.dense(b.flatten(x), "head", 3, true, kInit), 0);
}

graph::Program training() {
  return graph::compile(three_convolutions(), 2, Precision::kFp32, graph::Mode::kTraining);
}

auto times(double loops, double sideways, double backwards) {
  const auto is = [](const char* name, double microseconds) {
    return testing::AllOf(testing::Field(&backend::TimedAlgorithm::name, name),
                          testing::Field(&backend::TimedAlgorithm::seconds,
                                         testing::DoubleNear(1e-6 * microseconds, 1e-9)));
  };
  return testing::ElementsAre(is("loops", loops), is("sideways", sideways),
                              is("backwards", backwards));
}

// On the device's clock, once for each shape: what is refused or wants much memory is passed over.
TEST(CudaEngines, are_timed_for_each_pass_of_each_convolution) {
  const auto cuda = backend::make_cuda_backend(0);
  const AlgorithmTimes found = cuda->time_algorithms(training(), [] { return true; }).value();
  EXPECT_THAT(found,
              UnorderedElementsAre(
                  Pair("a.forward", times(25, 200, 300)), Pair("b.forward", times(25, 200, 300)),
                  Pair("c.forward", times(25, 200, 300)), Pair("b.data", times(100, 50, 300)),
                  Pair("c.data", times(100, 50, 300)), Pair("a.weights", times(100, 200, 75)),
                  Pair("b.weights", times(100, 200, 75)), Pair("c.weights", times(100, 200, 75))));
}

// All own ones first; who has nothing to be compared with is not named.
TEST(CudaEngines, are_timed_as_long_as_there_is_time) {
  const auto cuda = backend::make_cuda_backend(0);
  const auto names = [&](int looks) {
    const auto found = cuda->time_algorithms(training(), [&] { return looks-- > 0; });
    std::vector<std::string> result;
    for (const auto& [name, tried] : found.value())
      result.push_back(name + " " + tried.back().name);
    return result;
  };
  EXPECT_THAT(names(5), testing::IsEmpty());
  // Three looks for the two that are passed over.
  EXPECT_THAT(names(8), testing::ElementsAre("a.forward sideways"));
}

std::int64_t microseconds_with(const backend::Algorithms& algorithms) {
  const auto cuda = backend::make_cuda_backend(0);
  cuda->use(algorithms);
  ModelRun run(*cuda, three_convolutions(), {});
  const std::int64_t before = cuda_host::spent();
  run.forward();
  run.backward();
  run.gradients("c.weight");  // waits
  return cuda_host::spent() - before;
}

TEST(CudaEngines, are_those_that_were_named_or_the_backends_own) {
  const std::int64_t own = microseconds_with({});
  EXPECT_EQ(microseconds_with({{"b.data", "sideways"}, {"c.weights", "backwards"}}), own - 50 - 25);
  EXPECT_EQ(microseconds_with({{"a.forward", "sideways"}}), own + 175);
  EXPECT_EQ(microseconds_with({{"b.data", "refused"}, {"a.forward", "of another GPU"}, {"c", "x"}}),
            own);
}

}  // namespace
}  // namespace coxswain::test
