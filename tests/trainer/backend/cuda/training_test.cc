#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/cuda_host/device.h"
#include "tests/support/model_run.h"
#include "trainer/backend/control.h"
#include "trainer/backend/cuda/cuda_backend.h"
#include "trainer/backend/reference/reference_backend.h"
#include "trainer/graph/initialise.h"
#include "trainer/graph/models/models.h"

// Whole trainings on the host's device against the reference: same first weights, same batches.
namespace coxswain::test {
namespace {

using graph::Graph;

struct TrainingCase {
  const char* name;
  graph::Shape input;
  std::int64_t rows;
  int steps;
  OptimizerKind rule = OptimizerKind::kSgd;
};

// How far weights may end from the reference's, relative to their norm. In narrow types a sum that
// lies between two neighbours goes to either, and all that follows goes on from there; gradients of
// a convolution's weights are rounded, which the reference leaves.
struct Narrowness {
  Precision precision;
  double tolerance;
  double of_loss;
};
constexpr Narrowness kNarrownesses[] = {
    {Precision::kFp32, 1e-5, 1e-5}, {Precision::kBf16, 4e-3, 4e-2}, {Precision::kFp16, 2e-3, 1e-2}};

optim::LearningRate rate_of(OptimizerKind kind) {
  return {.lr = has_betas(kind) ? 0.0005F : 0.01F, .momentum = 0.9F};
}

// Of each segment but the control's, in canonical order.
std::vector<std::vector<float>> weights_of(const ModelRun& run) {
  std::vector<std::vector<float>> result;
  for (const tensor::Segment& s : run.parameters->layout().segments) {
    if (s.kind == tensor::SegmentKind::kControl) continue;
    std::vector<float> values(static_cast<std::size_t>(s.elements()));
    run.on.to_canonical(s, run.parameters->memory().snapshot(run.parameters->weights(s))(), values);
    result.push_back(std::move(values));
  }
  return result;
}

struct Trained {
  std::vector<std::vector<float>> weights;
  std::vector<float> control;  // of the last step
  LossSums sums;
};

Trained train(Backend& backend, const TrainingCase& c, Precision precision) {
  const Graph model = graph::build_model(value_of<Model>(c.name).value(), c.input, 10, 0.1F);
  ModelRun run(backend, model,
               {.rows = c.rows, .precision = precision, .num_slots = has_betas(c.rule) ? 2 : 1});
  run.batch.global_count = static_cast<double>(c.rows);
  const std::vector<std::int64_t> rows{c.rows};
  const auto control = run.parameters->gradients(run.parameters->layout().control());
  for (int step = 0; step < c.steps; ++step) {
    backend.begin_step(rows);
    run.batch.epoch = step;
    run.parameters->memory().write(backend::to_control(false, 0), control);
    backend::forward(*run.executable, run.batch);
    run.executable->write_sums(control);
    run.backward();
    backend.update({.kind = c.rule, .weight_decay = 1e-4F}, rate_of(c.rule), 1, *run.parameters);
    run.executable->parameters_changed();
    backend.end_step();
  }
  return {weights_of(run), run.parameters->memory().snapshot(control)(), run.executable->sums()};
}

// Of the difference of two tensors, relative to the first's norm.
double relative_error(const std::vector<float>& expected, const std::vector<float>& actual) {
  double squares = 0;
  double difference = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double d = static_cast<double>(expected[i]) - static_cast<double>(actual[i]);
    squares += static_cast<double>(expected[i]) * static_cast<double>(expected[i]);
    difference += d * d;
  }
  return std::sqrt(difference / (squares + 1e-12));
}

class CudaTraining : public testing::TestWithParam<TrainingCase> {};

TEST_P(CudaTraining, ends_with_the_weights_of_the_reference) {
  const auto reference = backend::make_reference_backend();
  for (const auto& [precision, tolerance, of_loss] : kNarrownesses) {
    SCOPED_TRACE(word(precision));
    const Trained expected = train(*reference, GetParam(), precision);
    for (const std::uint64_t seed : {1, 2}) {
      cuda_host::set_seed(seed);
      const auto cuda = backend::make_cuda_backend(0);
      const Trained actual = train(*cuda, GetParam(), precision);
      ASSERT_EQ(actual.weights.size(), expected.weights.size());
      for (std::size_t i = 0; i < expected.weights.size(); ++i) {
        EXPECT_LE(relative_error(expected.weights[i], actual.weights[i]), tolerance)
            << "segment " << i;
      }
      EXPECT_EQ(expected.control[backend::kUpdated], 1);
      EXPECT_EQ(actual.control[backend::kUpdated], 1);
      EXPECT_NEAR(actual.sums.loss, expected.sums.loss, of_loss * expected.sums.loss);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, CudaTraining,
    testing::Values(TrainingCase{"mlp", {1, 1, 28, 28}, 8, 4},
                    TrainingCase{"singa-cnn", {1, 1, 28, 28}, 4, 3},
                    TrainingCase{"cifar-resnet8", {1, 3, 16, 16}, 4, 3},
                    TrainingCase{"singa-cnn", {1, 1, 28, 28}, 4, 3, OptimizerKind::kLars},
                    TrainingCase{"singa-cnn", {1, 1, 28, 28}, 4, 3, OptimizerKind::kLamb},
                    TrainingCase{"cifar-resnet8", {1, 3, 16, 16}, 4, 3, OptimizerKind::kMuon}),
    [](const auto& tested) {
      std::string name = fmt::format("{}_{}", tested.param.name, word(tested.param.rule));
      std::ranges::replace(name, '-', '_');
      return name;
    });

}  // namespace
}  // namespace coxswain::test
