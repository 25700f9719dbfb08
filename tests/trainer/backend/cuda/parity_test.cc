#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/cuda_host/device.h"
#include "tests/support/model_run.h"
#include "tests/support/operation_cases.h"
#include "trainer/backend/checked_backend.h"
#include "trainer/backend/cuda/cuda_backend.h"
#include "trainer/backend/reference/reference_backend.h"
#include "trainer/contract/error.h"

// Every step of the CUDA backend, on the host's device, against the reference's from the same
// inputs: CheckedBackend throws where they differ by more than the tolerance beside the operation.
namespace coxswain::test {
namespace {

using graph::Graph;
using graph::Mode;

class CudaOperation : public testing::TestWithParam<OperationCase> {};

TEST_P(CudaOperation, agrees_with_the_reference_at_every_batch_size) {
  const Graph model = model_of(GetParam());
  std::uint64_t seed = 0;
  for (const std::int64_t rows : {1, 3, 17}) {
    for (const Mode mode : {Mode::kTraining, Mode::kEvaluation}) {
      cuda_host::set_seed(++seed);
      SCOPED_TRACE(
          fmt::format("rows {}, {}", rows, mode == Mode::kTraining ? "training" : "evaluation"));
      const auto checked = backend::make_checked_backend(backend::make_reference_backend(),
                                                         backend::make_cuda_backend(0));
      try {
        ModelRun run(*checked, model, {.rows = rows, .mode = mode});
        EXPECT_GT(run.forward().loss, 0);
        if (mode == Mode::kTraining) run.backward();
      } catch (const Error& error) {
        ADD_FAILURE() << error.what();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Operations, CudaOperation, testing::ValuesIn(ungrouped_cases()),
                         [](const auto& tested) { return tested.param.name; });

TEST(CudaParity, has_a_case_for_every_operation) {
  std::vector<Graph> models;
  std::ranges::transform(ungrouped_cases(), std::back_inserter(models), model_of);
  EXPECT_THAT(operations_not_run(models), testing::IsEmpty());
}

TEST(CudaParity, rows_that_are_not_scored_change_nothing) {
  const Graph model = model_of(operation_cases().front());
  const auto checked = backend::make_checked_backend(backend::make_reference_backend(),
                                                     backend::make_cuda_backend(0));
  ModelRun run(*checked, model, {.rows = 5, .valid = 3, .mode = Mode::kEvaluation});
  EXPECT_EQ(run.forward().samples, 3);
}

TEST(CudaParity, refuses_a_convolution_in_groups) {
  graph::Builder b({1, 4, 5, 5});
  const int x = b.conv(0, "c1", 4, 3, 1, 1, false, graph::WeightInit::kXavierUniform, 2);
  const Graph model = b.finish(b.global_avg_pool(x), 0);
  const auto cuda = backend::make_cuda_backend(0);
  try {
    ModelRun run(*cuda, model, {});
    ADD_FAILURE() << "was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_THAT(error.what(), testing::HasSubstr("[cuda] layer c1: device cuda has no convolution "
                                                 "in groups in this version"));
  }
}

// Weights in the canonical order, as ranks of different devices exchange them.
TEST(CudaParity, canonical_weights_give_the_gradients_of_native_ones) {
  for (const OperationCase& c : ungrouped_cases()) {
    SCOPED_TRACE(c.name);
    const auto cuda = backend::make_cuda_backend(0);
    ModelRun native(*cuda, model_of(c), {});
    ModelRun canonical(*cuda, model_of(c), {.layout = backend::LayoutKind::kCanonical});
    native.forward();
    native.backward();
    canonical.forward();
    canonical.backward();
    for (const graph::Parameter& p : native.program.parameters)
      EXPECT_EQ(native.gradients(p.name), canonical.gradients(p.name)) << p.name;
  }
}

}  // namespace
}  // namespace coxswain::test
