#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/trainer/train/training_fixture.h"
#include "trainer/backend/reference/reference_backend.h"
#include "trainer/data/preprocessor.h"
#include "trainer/graph/models/models.h"
#include "trainer/train/executables.h"
#include "trainer/train/model_state.h"
#include "trainer/tensor/host_span.h"

namespace coxswain::train {
namespace {

TEST(Accumulation, gives_the_weights_of_the_same_rows_in_one_batch) {
  struct Row {
    int ranks;
    std::int64_t batch;
    int accumulate;
  };
  TrainOptions options = mlp_options();
  options.steps = 5;
  options.batch_size = 24;
  const Outcome whole = run(options, {.size = 1, .training = &small_images()});
  options.global_batch_size = false;
  for (const Row& row : std::vector<Row>{{1, 12, 2},
                                         {1, 8, 3},
                                         {1, 4, 6},
                                         {2, 6, 2},
                                         {2, 4, 3},
                                         {3, 4, 2},
                                         {3, 2, 4},
                                         {4, 2, 3}}) {
    options.batch_size = row.batch;
    options.accumulate = row.accumulate;
    const Outcome cut = run(options, {.size = row.ranks, .training = &small_images()});
    EXPECT_EQ(cut.told.started[0].global_batch, 24);
    EXPECT_LE(relative_distance(whole.weights, cut.weights), 1e-6)
        << row.ranks << " ranks x " << row.batch << " x " << row.accumulate;
  }
}

TEST(Accumulation, does_not_change_bits_with_the_bucket_size) {
  TrainOptions options = mlp_options();
  options.accumulate = 3;
  options.epochs = 1;
  options.bucket_bytes = 1 << 30;
  const Outcome whole = run(options, {.size = 3, .training = &small_images()});
  options.bucket_bytes = 1;
  const Outcome cut = run(options, {.size = 3, .training = &small_images()});
  EXPECT_EQ(difference(whole.weights, cut.weights), "");
}

// The first weights and the sum, not the mean, of the gradients of `ids` there.
struct Gradients {
  std::vector<float> weights;
  std::vector<float> sum;
};

Gradients gradients_of(const TrainOptions& options, const data::Dataset& images,
                       std::span<const std::int64_t> ids) {
  const auto backend = backend::make_reference_backend();
  const auto graph = graph::build_model(options.model, images.sample_shape(), images.classes(), 0);
  const auto program = graph::compile(graph, static_cast<std::int64_t>(ids.size()),
                                      options.precision, graph::Mode::kTraining);
  const auto parameters =
      backend->make_parameters(backend->layout(program, backend::LayoutKind::kCanonical), 0);
  initialise(program, options.seed, *backend, *parameters);
  Executables executables(graph, options.precision, *backend, *parameters);
  auto& executable = executables.get(graph::Mode::kTraining, static_cast<std::int64_t>(ids.size()));

  const auto pixels = static_cast<std::size_t>(images.sample_shape().elements());
  std::vector<std::uint8_t> rows(ids.size() * pixels);
  std::vector<std::int32_t> labels;
  data::Preprocessor preprocessor(options.preprocessing, images.sample_shape(), true);
  augment::Scratch scratch;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    preprocessor.run({options.seed, ids[i], 0}, images.read(ids[i], scratch),
                     std::span(rows).subspan(i * pixels, pixels));
    labels.push_back(images.label(ids[i]));
  }
  backend::forward(executable, {.images = {rows, preprocessor.table()},
                                .labels = labels,
                                .sample_ids = ids,
                                .seed = options.seed,
                                .valid = std::ssize(ids)});
  backend::backward(executable, [](int) {});
  Gradients result;
  for (const tensor::Segment& segment : parameters->layout().segments) {
    if (!tensor::is_trainable(segment.kind)) continue;
    const auto append = [&](std::vector<float>& to, const tensor::Slice& slice) {
      const std::span<const float> values = tensor::host_span(slice);
      to.insert(to.end(), values.begin(), values.begin() + segment.elements());
    };
    append(result.weights, parameters->weights(segment));
    append(result.sum, parameters->gradients(segment));
  }
  return result;
}

// mean: w - lr sum / count. mxnet-sum: w - lr sum, MXNet's rescale_grad of 1.
TEST(GradientReduction, makes_the_first_update_that_the_formula_says) {
  TrainOptions options = mlp_options();
  options.schedule.momentum = 0;
  options.schedule.lr = 0.01F;
  options.batch_size = 9;
  options.accumulate = 2;
  options.steps = 1;
  const data::EpochOrder order(
      {.dataset_size = 60, .global_batch = 9, .world_size = 1, .seed = options.seed}, 0);
  const Gradients first = gradients_of(options, small_images(), order.rank_rows(0, 0));
  for (const bool mean : {true, false}) {
    options.divide_by_count = mean;
    const float factor = mean ? 0.01F / 9.0F : 0.01F;
    std::vector<float> expected = first.weights;
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] -= factor * first.sum[i];
    for (const int size : {1, 2, 4}) {
      const Outcome outcome = run(options, {.size = size, .training = &small_images()});
      ASSERT_GT(relative_distance(outcome.weights, first.weights), 1e-5);
      EXPECT_LE(relative_distance(outcome.weights, expected), 1e-7)
          << (mean ? "mean" : "mxnet-sum") << " on " << size << " ranks";
    }
  }
}

}  // namespace
}  // namespace coxswain::train
