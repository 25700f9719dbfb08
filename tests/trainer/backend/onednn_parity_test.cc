#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "tests/support/model_run.h"
#include "tests/support/operation_cases.h"
#include "tests/support/test_flags.h"
#include "trainer/backend/checked_backend.h"
#include "trainer/backend/onednn/onednn_backend.h"
#include "trainer/backend/onednn/onednn_compat.h"
#include "trainer/backend/reference/reference_backend.h"
#include "trainer/contract/error.h"
#include "trainer/graph/models/models.h"

// Every step of the oneDNN backend against the reference's, from the same inputs: CheckedBackend
// throws where they differ by more than the tolerance beside the operation.
namespace coxswain::test {
namespace {

using graph::Graph;
using graph::Mode;
using graph::Shape;

std::unique_ptr<Backend> checked_onednn(const backend::OneDnnOptions& options = {}) {
  return backend::make_checked_backend(backend::make_reference_backend(),
                                       backend::make_onednn_backend(options));
}

bool has_bfloat16() {
  const bool has = backend::onednn::has_isa(dnnl::cpu_isa::avx512_core);
  if (!has) std::puts("bf16 not checked: oneDNN has no bf16 kernels on this CPU");
  return has;
}

std::vector<Precision> precisions() {
  if (has_bfloat16()) return {Precision::kFp32, Precision::kFp16, Precision::kBf16};
  return {Precision::kFp32, Precision::kFp16};
}

// One forward and, in training, one backward pass; throws where a step differs.
void check(Backend& checked, const Graph& model, RunOptions options) {
  options.seed = flags().seed_given ? flags().seed : 1;
  SCOPED_TRACE(fmt::format("rows {}, {}, {}", options.rows, word(options.precision),
                           options.mode == Mode::kTraining ? "training" : "evaluation"));
  try {
    ModelRun run(checked, model, options);
    const LossSums sums = run.forward();
    EXPECT_GT(sums.loss, 0);
    if (options.mode == Mode::kTraining) run.backward();
  } catch (const Error& error) {
    ADD_FAILURE() << error.what();
  }
}

struct ModelCase {
  const char* name;
  Shape input;  // small, so that the reference's loops are quick
  std::int64_t rows;
  bool large = false;  // training alone is checked: the reference takes its time
};

class OneDnnModel : public testing::TestWithParam<ModelCase> {};

TEST_P(OneDnnModel, agrees_with_the_reference_at_every_step) {
  const ModelCase& c = GetParam();
  const Graph model = graph::build_model(value_of<Model>(c.name).value(), c.input, 10, 0.1F);
  for (const Precision precision : precisions()) {
    const auto backend = checked_onednn();
    check(*backend, model, {.rows = c.rows, .precision = precision});
    if (c.large) continue;
    check(*backend, model, {.rows = c.rows, .precision = precision, .mode = Mode::kEvaluation});
  }
}

INSTANTIATE_TEST_SUITE_P(Models, OneDnnModel,
                         testing::Values(ModelCase{"mlp", {1, 1, 28, 28}, 5},
                                         ModelCase{"lenet", {1, 1, 28, 28}, 4},
                                         ModelCase{"singa-cnn", {1, 1, 28, 28}, 5},
                                         ModelCase{"keras-cnn", {1, 1, 14, 14}, 4},
                                         ModelCase{"cifar-resnet8", {1, 3, 14, 14}, 5},
                                         ModelCase{"cifar-resnet20", {1, 3, 8, 8}, 6},
                                         ModelCase{"cifar-resnet164", {1, 3, 4, 4}, 5},
                                         ModelCase{"d2l-resnet18", {1, 3, 8, 8}, 3, true},
                                         ModelCase{"resnet50", {1, 3, 32, 32}, 2, true}),
                         [](const auto& tested) {
                           std::string name = tested.param.name;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

class OneDnnOperation : public testing::TestWithParam<OperationCase> {};

TEST_P(OneDnnOperation, agrees_with_the_reference_at_every_batch_size) {
  const Graph model = model_of(GetParam());
  for (const Precision precision : precisions()) {
    for (const std::int64_t rows : {1, 3, 16, 17, 64}) {
      for (const Mode mode : {Mode::kTraining, Mode::kEvaluation}) {
        const auto backend = checked_onednn();
        check(*backend, model, {.rows = rows, .precision = precision, .mode = mode});
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Operations, OneDnnOperation, testing::ValuesIn(operation_cases()),
                         [](const auto& tested) { return tested.param.name; });

TEST(OneDnnParity, has_a_case_for_every_operation) {
  std::vector<Graph> models;
  std::ranges::transform(operation_cases(), std::back_inserter(models), model_of);
  EXPECT_THAT(operations_not_run(models), testing::IsEmpty());
}

TEST(OneDnnParity, winograd_agrees_with_the_reference) {
  const Graph model = graph::build_model(Model::kD2lResnet18, {1, 3, 8, 8}, 10, 0);
  const auto backend = checked_onednn({.winograd = true});
  check(*backend, model, {.rows = 2});
}

TEST(OneDnnParity, every_algorithm_agrees_with_the_reference) {
  for (const auto& [name, input] : {std::pair{Model::kSingaCnn, Shape{1, 1, 28, 28}},
                                    std::pair{Model::kLenet, Shape{1, 1, 28, 28}},
                                    std::pair{Model::kD2lResnet18, Shape{1, 3, 8, 8}}}) {
    const Graph model = graph::build_model(name, input, 10, 0);
    for (const Precision precision : precisions()) {
      const auto backend = checked_onednn({.winograd = true});
      const auto choices =
          backend->algorithm_choices(graph::compile(model, 3, precision, Mode::kTraining));
      for (std::size_t i = 0; i < 3; ++i) {
        backend::Algorithms algorithms;
        for (const auto& [layer, names] : choices)
          algorithms[layer] = names[std::min(i, names.size() - 1)];
        backend->use(algorithms);
        check(*backend, model, {.rows = 3, .precision = precision});
      }
    }
  }
}

TEST(OneDnnParity, a_layer_is_computed_as_it_is_told) {
  const auto backend = backend::make_onednn_backend({});
  const graph::Program program =
      graph::compile(graph::build_model(Model::kSingaCnn, {1, 1, 28, 28}, 10, 0), 2,
                     Precision::kFp32, Mode::kTraining);
  const auto choices = backend->algorithm_choices(program);
  if (choices.empty()) GTEST_SKIP() << "one algorithm alone without AVX-512";
  const auto& [layer, names] = *choices.rbegin();
  EXPECT_THAT(names, testing::ElementsAre("lanes", "direct"));
  const tensor::ParameterLayout own = backend->layout(program, backend::LayoutKind::kNative);
  backend->use({{layer, "direct"}});
  EXPECT_NE(own, backend->layout(program, backend::LayoutKind::kNative));
  EXPECT_THAT(backend->fingerprint(), testing::HasSubstr(layer + "=direct"));
  backend->use({{layer, "of another device"}});
  EXPECT_EQ(own, backend->layout(program, backend::LayoutKind::kNative));
}

TEST(OneDnnParity, rows_that_are_not_scored_change_nothing) {
  const Graph model = graph::build_model(Model::kSingaCnn, {1, 1, 28, 28}, 10, 0);
  const auto backend = checked_onednn();
  check(*backend, model, {.rows = 5, .valid = 3, .mode = Mode::kEvaluation});
}

}  // namespace
}  // namespace coxswain::test
