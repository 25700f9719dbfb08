#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cuda_host/device.h"
#include "tests/support/model_run.h"
#include "trainer/backend/cuda/cuda_backend.h"
#include "trainer/backend/reference/reference_backend.h"
#include "trainer/graph/graph.h"

namespace coxswain::test {
namespace {

struct Found {
  std::vector<LossSums> sums;
  std::vector<float> gradients;
};

// Steps of which the first is not mixed, nor the last, over the same memory; one row is padding.
Found train(Backend& on) {
  constexpr auto kInit = graph::WeightInit::kXavierUniform;
  graph::Builder b({1, 2, 5, 5});
  const graph::Graph model = b.finish(b.dense(b.flatten(b.input()), "d", 7, true, kInit), 0.1F);
  const std::vector<std::int32_t> partners{1, 6, 0, 2, 5, 0};
  const std::vector<float> shares{0.75F, 0.25F, 0.0F, 0.5F, 1.0F, 0.5F};
  ModelRun run(on, model, {.rows = 6, .valid = 5});
  Found found;
  for (const bool mixed : {false, true, true, false}) {
    on.begin_step(std::vector<std::int64_t>{5});
    run.batch.partner_labels = mixed ? std::span(partners) : std::span<const std::int32_t>();
    run.batch.shares = mixed ? std::span(shares) : std::span<const float>();
    backend::forward(*run.executable, run.batch);
    run.backward();
    on.end_step();
    found.sums.push_back(run.executable->sums());
    const std::vector<float> gradients = run.gradients("d.weight");
    found.gradients.insert(found.gradients.end(), gradients.begin(), gradients.end());
  }
  return found;
}

TEST(CudaMixedLoss, is_that_of_the_reference) {
  const auto reference = backend::make_reference_backend();
  const Found expected = train(*reference);
  for (const std::uint64_t seed : {1, 2}) {
    cuda_host::set_seed(seed);
    const auto cuda = backend::make_cuda_backend(0);
    const Found actual = train(*cuda);
    for (std::size_t i = 0; i < expected.sums.size(); ++i) {
      EXPECT_NEAR(actual.sums[i].loss, expected.sums[i].loss, 1e-5);
      EXPECT_EQ(actual.sums[i].correct, expected.sums[i].correct);
      EXPECT_EQ(actual.sums[i].correct_top5, expected.sums[i].correct_top5);
    }
    EXPECT_THAT(actual.gradients,
                testing::Pointwise(testing::FloatNear(1e-6F), expected.gradients));
  }
  EXPECT_NE(expected.sums[0].loss, expected.sums[1].loss);
}

}  // namespace
}  // namespace coxswain::test
