#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

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

class CudaOperation : public testing::TestWithParam<std::tuple<OperationCase, Precision>> {};

TEST_P(CudaOperation, agrees_with_the_reference_at_every_batch_size) {
  const Graph model = model_of(std::get<OperationCase>(GetParam()));
  const Precision precision = std::get<Precision>(GetParam());
  std::uint64_t seed = 0;
  for (const std::int64_t rows : {1, 3, 17}) {
    for (const Mode mode : {Mode::kTraining, Mode::kEvaluation}) {
      cuda_host::set_seed(++seed);
      SCOPED_TRACE(
          fmt::format("rows {}, {}", rows, mode == Mode::kTraining ? "training" : "evaluation"));
      const auto checked = backend::make_checked_backend(backend::make_reference_backend(),
                                                         backend::make_cuda_backend(0));
      try {
        ModelRun run(*checked, model, {.rows = rows, .precision = precision, .mode = mode});
        EXPECT_GT(run.forward().loss, 0);
        if (mode == Mode::kTraining) run.backward();
      } catch (const Error& error) {
        ADD_FAILURE() << error.what();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Operations, CudaOperation,
                         testing::Combine(testing::ValuesIn(operation_cases()),
                                          testing::Values(Precision::kFp32, Precision::kBf16,
                                                          Precision::kFp16)),
                         [](const auto& tested) {
                           return fmt::format("{}_{}", std::get<OperationCase>(tested.param).name,
                                              word(std::get<Precision>(tested.param)));
                         });

TEST(CudaParity, has_a_case_for_every_operation) {
  std::vector<Graph> models;
  std::ranges::transform(operation_cases(), std::back_inserter(models), model_of);
  EXPECT_THAT(operations_not_run(models), testing::IsEmpty());
}

TEST(CudaParity, rows_that_are_not_scored_change_nothing) {
  const Graph model = model_of(operation_cases().front());
  const auto checked = backend::make_checked_backend(backend::make_reference_backend(),
                                                     backend::make_cuda_backend(0));
  ModelRun run(*checked, model, {.rows = 5, .valid = 3, .mode = Mode::kEvaluation});
  EXPECT_EQ(run.forward().samples, 3);
}

// Weights in the canonical order, as ranks of different devices exchange them.
TEST(CudaParity, canonical_weights_give_the_gradients_of_native_ones) {
  for (const OperationCase& c : operation_cases()) {
    for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
      SCOPED_TRACE(fmt::format("{} {}", c.name, word(precision)));
      const auto cuda = backend::make_cuda_backend(0);
      ModelRun native(*cuda, model_of(c), {.precision = precision});
      ModelRun canonical(*cuda, model_of(c),
                         {.precision = precision, .layout = backend::LayoutKind::kCanonical});
      native.forward();
      native.backward();
      canonical.forward();
      canonical.backward();
      for (const graph::Parameter& p : native.program.parameters)
        EXPECT_EQ(native.gradients(p.name), canonical.gradients(p.name)) << p.name;
    }
  }
}

}  // namespace
}  // namespace coxswain::test
