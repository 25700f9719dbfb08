#include "trainer/train/evaluation.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "tests/trainer/train/training_fixture.h"
#include "trainer/backend/reference/reference_backend.h"
#include "trainer/graph/models/models.h"
#include "trainer/train/model_state.h"

namespace coxswain::train {
namespace {

// A model with its first weights on one rank, over a backend that notes which samples it scores.
class Scorer {
 public:
  explicit Scorer(const data::Dataset& images)
      : images_(images),
        graph_(graph::build_model(Model::kMlp, images.sample_shape(), images.classes(), 0)),
        program_(graph::compile(graph_, 1, kPrecision, graph::Mode::kTraining)),
        backend_(backend::make_reference_backend(), noting()),
        parameters_(backend_.make_parameters(
            backend_.layout(program_, backend::LayoutKind::kCanonical), 0)),
        executables_(graph_, kPrecision, backend_, *parameters_) {
    initialise(program_, /*seed=*/3, backend_, *parameters_);
  }

  Scores score(comm::Communicator& communicator, const StepCut& cut, std::int64_t batch) {
    return evaluate(executables_, images_, {batch, {}}, communicator, cut);
  }
  const std::multiset<std::int64_t>& scored() const { return scored_; }

 private:
  static constexpr auto kPrecision = Precision::kFp32;

  Hooks noting() {
    Hooks hooks;
    hooks.before_evaluation = [this](const backend::Batch& batch) {
      const auto valid = batch.sample_ids.first(static_cast<std::size_t>(batch.valid));
      scored_.insert(valid.begin(), valid.end());
    };
    return hooks;
  }

  const data::Dataset& images_;
  std::multiset<std::int64_t> scored_;
  graph::Graph graph_;
  graph::Program program_;
  HookedBackend backend_;
  std::unique_ptr<backend::Parameters> parameters_;
  Executables executables_;
};

// One sample at a time.
Scores score_alone(const data::Dataset& images) {
  const auto solo = comm::make_solo_communicator();
  return Scorer(images).score(*solo, {}, 1);
}

struct EvaluationCase {
  std::int64_t samples;
  int ranks;
  std::int64_t batch;
  int virtual_shards;
};

void expect_each_sample_once(const EvaluationCase& row) {
  SCOPED_TRACE(fmt::format("{} samples, {} ranks, batch {}, {} shards", row.samples, row.ranks,
                           row.batch, row.virtual_shards));
  const auto images = data::make_synthetic({1, 1, 4, 4}, 10, row.samples, 11);
  const Scores alone = score_alone(*images);
  std::mutex mutex;
  std::multiset<std::int64_t> scored;
  test::run_ranks(row.ranks, [&](comm::Communicator& communicator) {
    Scorer scorer(*images);
    const Scores scores = scorer.score(communicator, {row.ranks, row.virtual_shards, 1}, row.batch);
    const std::lock_guard lock(mutex);
    EXPECT_EQ(scores.samples, row.samples);
    EXPECT_EQ(scores.accuracy, alone.accuracy);
    EXPECT_EQ(scores.top5, alone.top5);
    EXPECT_NEAR(scores.loss, alone.loss, 1e-6 * alone.loss);
    scored.insert(scorer.scored().begin(), scorer.scored().end());
  });
  std::multiset<std::int64_t> all;
  for (std::int64_t id = 0; id < row.samples; ++id) all.insert(id);
  EXPECT_EQ(scored, all);
}

TEST(Evaluation, scores_every_sample_exactly_once) {
  for (const EvaluationCase& row :
       std::vector<EvaluationCase>{{1, 1, 4, 0},
                                   {1, 3, 4, 0},  // ranks without samples
                                   {2, 5, 1, 0},
                                   {37, 1, 8, 0},  // a padded last batch
                                   {37, 2, 8, 0},
                                   {37, 4, 100, 0},
                                   {64, 4, 16, 0},
                                   {5, 2, 3, 8},  // shards without samples
                                   {37, 3, 4, 8},
                                   {64, 8, 8, 8}}) {
    expect_each_sample_once(row);
  }
}

TEST(Evaluation, agrees_with_a_count_by_hand) {
  const auto images = data::make_synthetic({1, 1, 4, 4}, 10, 50, 12);
  const auto backend = backend::make_reference_backend();
  const auto graph = graph::build_model(Model::kMlp, images->sample_shape(), 10, 0);
  const auto program = graph::compile(graph, 1, Precision::kFp32, graph::Mode::kTraining);
  const auto parameters =
      backend->make_parameters(backend->layout(program, backend::LayoutKind::kCanonical), 0);
  initialise(program, 3, *backend, *parameters);
  const auto executable = backend->prepare(
      graph::compile(graph, 1, Precision::kFp32, graph::Mode::kEvaluation), *parameters);
  const std::vector<float> table = augment::pixel_table(nullptr, 1);
  double correct = 0;
  for (std::int64_t id = 0; id < images->size(); ++id) {
    augment::Scratch scratch;
    const tensor::Pixels pixels{images->read(id, scratch).bytes, table};
    const std::int32_t label = images->label(id);
    backend::forward(*executable, {pixels, {&label, 1}, {&id, 1}, 0, 0, 1, 1});
    const auto logits = executable->fetch(executable->program().graph.nodes.back().inputs[0]);
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    if (best == label) ++correct;
  }
  const Scores scores = score_alone(*images);
  EXPECT_EQ(scores.accuracy, correct / 50);
  EXPECT_GE(scores.top5, scores.accuracy);
}

TEST(Evaluation, on_images_of_another_shape_is_refused_before_the_first_step) {
  const auto turned = data::make_synthetic({1, 1, 4, 9}, 4, 23, 8);  // as many pixels
  const World world = {.size = 2, .training = &small_images(), .test = turned.get()};
  for (const Outcome& outcome : run_ranks(mlp_options(), world)) {
    EXPECT_EQ(outcome.code, ExitCode::kBadInput);
    EXPECT_THAT(outcome.error, ::testing::HasSubstr("test images 1x4x9"));
    EXPECT_EQ(outcome.updates, 0);
  }
}

}  // namespace
}  // namespace coxswain::train
