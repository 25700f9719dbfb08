#include "trainer/backend/onednn/onednn_backend.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <thread>

#include "tests/support/test_flags.h"
#include "tests/support/model_run.h"
#include "trainer/backend/onednn/dropout_mask.h"
#include "trainer/backend/reference/reference_backend.h"
#include "trainer/contract/error.h"
#include "trainer/graph/models/models.h"
#include "trainer/tensor/host_span.h"
#include "trainer/tensor/philox.h"

namespace coxswain::test {
namespace {

using backend::LayoutKind;
using backend::make_onednn_backend;
using backend::Parameters;
using graph::Graph;
using graph::Mode;
using tensor::host_span;

// Convolutions in groups of every kind, a Concat and the curves; 21 channels fill no block.
Graph mobile(const graph::Shape& input) {
  constexpr graph::WeightInit kInit = graph::WeightInit::kHeNormalIn;
  graph::Builder b(input);
  int x = b.conv(b.input(), "c1", 21, 3, 2, 1, false, kInit);
  x = b.relu6(b.batch_norm(x, "n1"));
  x = b.silu(b.conv(x, "d1", 21, 3, 1, 1, true, kInit, 21));
  x = b.conv(x, "c2", 32, 1, 1, 0, false, kInit);
  x = b.hard_swish(b.conv(x, "d2", 32, 3, 2, 1, false, kInit, 32));
  const int left = b.sigmoid(b.conv(x, "g1", 16, 3, 1, 1, true, kInit, 4));
  x = b.concat({left, x, b.avg_pool(x, 3, 1, 1, /*counts_padding=*/true)});
  return b.finish(b.dense(b.global_avg_pool(x), "fc", 10, true, kInit), 0);
}

Graph model(const char* name, const graph::Shape& input) {
  if (std::strcmp(name, "mobile") == 0) return mobile(input);
  return graph::build_model(value_of<Model>(name).value(), input, 10, 0);
}

// Of the difference of two tensors, relative to the first.
double relative_error(const std::vector<float>& expected, const std::vector<float>& actual) {
  double squares = 0;
  double difference = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    squares += static_cast<double>(expected[i]) * expected[i];
    difference += (static_cast<double>(expected[i]) - actual[i]) * (expected[i] - actual[i]);
  }
  return std::sqrt(difference / squares);
}

// The saver's thread reorders beside the training, which has the other cores of a shared machine.
TEST(OneDnnBackend, another_thread_keeps_to_the_number_of_threads) {
  const auto onednn = make_onednn_backend({.threads = 1});
  const graph::Program program = graph::compile(model("cifar-resnet8", {1, 3, 32, 32}), 16,
                                                Precision::kFp32, Mode::kTraining);
  const tensor::ParameterLayout layout = onednn->layout(program, LayoutKind::kNative);
  const auto blocked = std::ranges::find_if(
      layout.segments, [](const tensor::Segment& s) { return s.layout != "canonical"; });
  ASSERT_NE(blocked, layout.segments.end());
  int before = 0;
  int after = 0;
  std::thread([&] {
    omp_set_num_threads(7);  // as of a machine with 7 cores
    before = omp_get_max_threads();
    const std::vector<float> stored(static_cast<std::size_t>(blocked->stored));
    std::vector<float> canonical(static_cast<std::size_t>(blocked->elements()));
    onednn->to_canonical(*blocked, stored, canonical);
    after = omp_get_max_threads();
  }).join();
  EXPECT_EQ(before, 7);
  EXPECT_EQ(after, 1);
}

TEST(OneDnnBackend, stores_weights_natively_with_zero_padding_and_gives_them_back) {
  const auto onednn = make_onednn_backend({});
  for (const char* name : {"cifar-resnet8", "keras-cnn", "singa-cnn", "lenet", "mobile"}) {
    const bool colour = std::strncmp(name, "cifar", 5) == 0;
    const graph::Program program = graph::compile(model(name, {1, colour ? 3 : 1, 28, 28}), 16,
                                                  Precision::kFp32, Mode::kTraining);
    const tensor::ParameterLayout layout = onednn->layout(program, LayoutKind::kNative);
    std::mt19937 random(static_cast<std::mt19937::result_type>(flags().seed));
    std::uniform_real_distribution<float> uniform(1, 2);
    for (const tensor::Segment& segment : layout.segments) {
      if (segment.kind == tensor::SegmentKind::kControl) continue;
      std::vector<float> canonical(static_cast<std::size_t>(segment.elements()));
      for (float& value : canonical) value = uniform(random);
      std::vector<float> stored(static_cast<std::size_t>(segment.stored), -1.F);
      onednn->from_canonical(segment, canonical, stored);
      EXPECT_EQ(std::ranges::count(stored, 0.F), segment.stored - segment.elements())
          << segment.name << " of " << name;
      std::vector<float> back(canonical.size());
      onednn->to_canonical(segment, stored, back);
      EXPECT_EQ(back, canonical) << segment.name << " of " << name;
    }
  }
}

TEST(OneDnnBackend, stores_weights_canonically_where_asked) {
  const auto onednn = make_onednn_backend({});
  const graph::Program program = graph::compile(model("cifar-resnet8", {1, 3, 28, 28}), 16,
                                                Precision::kFp32, Mode::kTraining);
  for (const tensor::Segment& s : onednn->layout(program, LayoutKind::kCanonical).segments) {
    EXPECT_EQ(s.layout, "canonical") << s.name;
    EXPECT_EQ(s.stored, s.elements()) << s.name;
  }
}

void expect_same_gradients_from_canonical_weights(const Graph& net) {
  const auto onednn = make_onednn_backend({});
  ModelRun native(*onednn, net, {.rows = 6});
  native.forward();
  native.backward();
  const auto parameters =
      onednn->make_parameters(onednn->layout(native.program, LayoutKind::kCanonical), 0);
  Parameters& canonical = *parameters;
  for (const graph::Parameter& p : native.program.parameters) {
    const tensor::Segment& to =
        canonical.layout()
            .segments[static_cast<std::size_t>(canonical.layout().find(p.name).value())];
    const tensor::Segment& from = native.segment(p.name);
    onednn->to_canonical(from, native.weights(p.name), host_span(canonical.weights(to)));
  }
  const auto executable = onednn->prepare(native.program, canonical);
  backend::forward(*executable, native.batch);
  backend::backward(*executable, [](int) {});
  for (const graph::Parameter& p : native.program.parameters) {
    const tensor::Segment& segment =
        canonical.layout()
            .segments[static_cast<std::size_t>(canonical.layout().find(p.name).value())];
    const std::span<float> gradients = host_span(canonical.gradients(segment));
    EXPECT_EQ(native.gradients(p.name), std::vector<float>(gradients.begin(), gradients.end()))
        << p.name;
  }
}

TEST(OneDnnBackend, computes_the_same_gradients_from_native_and_canonical_weights) {
  for (const char* name : {"cifar-resnet8", "mobile"}) {
    SCOPED_TRACE(name);
    expect_same_gradients_from_canonical_weights(model(name, {1, 3, 14, 14}));
  }
}

// CheckedBackend looks at every edge; here nobody looks, and steps may be shortened.
TEST(OneDnnBackend, agrees_with_the_reference_over_a_whole_pass) {
  for (const char* name : {"cifar-resnet8", "singa-cnn", "keras-cnn", "mobile"}) {
    const bool colour = std::strncmp(name, "cifar", 5) == 0;
    const Graph net = model(name, {1, colour ? 3 : 1, 16, 16});
    const auto reference = backend::make_reference_backend();
    const auto onednn = make_onednn_backend({});
    ModelRun expected(*reference, net, {.rows = 7});
    ModelRun actual(*onednn, net, {.rows = 7});
    EXPECT_NEAR(expected.forward().loss, actual.forward().loss, 1e-3) << name;
    expected.backward();
    actual.backward();
    for (const graph::Parameter& p : expected.program.parameters) {
      EXPECT_LT(relative_error(expected.gradients(p.name), actual.gradients(p.name)), 2e-3)
          << p.name << " of " << name;
    }
  }
}

TEST(OneDnnBackend, computes_an_edge_that_it_left_out_when_somebody_looks) {
  const Graph net = model("cifar-resnet8", {1, 3, 14, 14});
  const auto reference = backend::make_reference_backend();
  const auto onednn = make_onednn_backend({});
  ModelRun expected(*reference, net, {.rows = 5});
  ModelRun actual(*onednn, net, {.rows = 5});
  const int edge = edge_named(expected.program, "d(bn_data)");
  for (ModelRun* run : {&expected, &actual}) {
    run->forward();
    for (int step = run->program.first_backward;; ++step) {
      run->executable->run(step);
      const std::vector<int>& writes = run->program.steps[static_cast<std::size_t>(step)].writes;
      if (std::ranges::find(writes, edge) != writes.end()) break;
    }
  }
  EXPECT_LT(relative_error(expected.executable->fetch(edge), actual.executable->fetch(edge)), 1e-4);
}

TEST(OneDnnBackend, lets_training_the_last_batch_and_evaluation_share_one_buffer) {
  const Graph net = model("cifar-resnet8", {1, 3, 14, 14});
  const auto onednn = make_onednn_backend({});
  ModelRun train(*onednn, net, {.rows = 8});
  const double alone = train.forward().loss;
  const graph::Program last = graph::compile(net, 3, Precision::kFp32, Mode::kTraining);
  const graph::Program evaluation = graph::compile(net, 32, Precision::kFp32, Mode::kEvaluation);
  const auto last_executable = onednn->prepare(last, *train.parameters);
  const auto evaluation_executable =
      onednn->prepare(evaluation, *train.parameters);  // the arena moves

  EXPECT_EQ(train.forward().loss, alone);
  train.backward();
  const std::vector<float> gradients = train.gradients("conv0.weight");
  Batch three = train.batch;
  three.images.bytes = three.images.bytes.first(3 * 3 * 14 * 14);
  three.labels = three.labels.first(3);
  three.sample_ids = three.sample_ids.first(3);
  three.valid = 3;
  backend::forward(*last_executable, three);
  EXPECT_GT(last_executable->sums().loss, 0);
  backend::backward(*last_executable, [](int) {});
  EXPECT_NE(train.gradients("conv0.weight"), gradients);

  const std::vector<std::uint8_t> bytes(32 * 3 * 14 * 14);
  const std::vector<float> table(3 * 256, 0.5F);
  const std::vector<std::int32_t> labels(32, 1);
  const std::vector<std::int64_t> ids(32, 0);
  const Batch padded{
      .images = {bytes, table}, .labels = labels, .sample_ids = ids, .valid = 2};
  backend::forward(*evaluation_executable, padded);
  const LossSums two = evaluation_executable->sums();
  EXPECT_EQ(two.samples, 2);
  EXPECT_EQ(train.forward().loss, alone);
  train.backward();
  EXPECT_EQ(train.gradients("conv0.weight"), gradients);
}

TEST(OneDnnBackend, gives_the_same_bits_twice) {
  for (const char* name : {"singa-cnn", "keras-cnn", "cifar-resnet8", "mobile"}) {
    const bool colour = std::strncmp(name, "cifar", 5) == 0;
    const Graph net = model(name, {1, colour ? 3 : 1, 28, 28});
    std::vector<std::vector<float>> first;
    for (int time = 0; time < 2; ++time) {
      const auto onednn = make_onednn_backend({.threads = 2});
      ModelRun run(*onednn, net, {.rows = 20});
      run.forward();
      run.backward();
      for (std::size_t i = 0; i < run.program.parameters.size(); ++i) {
        const std::vector<float> gradients = run.gradients(run.program.parameters[i].name);
        if (time == 0) {
          first.push_back(gradients);
        } else {
          EXPECT_EQ(first[i], gradients) << run.program.parameters[i].name << " of " << name;
        }
      }
    }
  }
}

// What the allocator's caches of its threads hold counts as in use and moves with their timing, so
// one round may grow: what a step keeps would grow every round.
TEST(OneDnnBackend, keeps_no_memory_after_a_step) {
  for (const char* name : {"singa-cnn", "keras-cnn", "cifar-resnet8", "mobile"}) {
    const bool colour = std::strncmp(name, "cifar", 5) == 0;
    const auto onednn = make_onednn_backend({});
    ModelRun run(*onednn, model(name, {1, colour ? 3 : 1, 28, 28}), {.rows = 16});
    const auto growth_of_a_round = [&] {
      const struct mallinfo2 before = mallinfo2();
      for (int step = 0; step < 3; ++step) {
        run.executable->load(run.batch);
        for (std::size_t i = 0; i < run.program.steps.size(); ++i)
          run.executable->run(static_cast<int>(i));
      }
      const struct mallinfo2 after = mallinfo2();
      return static_cast<std::ptrdiff_t>(after.uordblks + after.hblkhd) -
             static_cast<std::ptrdiff_t>(before.uordblks + before.hblkhd);
    };
    std::ptrdiff_t growth = growth_of_a_round();  // the first one sets up
    for (int round = 0; round < 10 && growth > 0; ++round) growth = growth_of_a_round();
    EXPECT_LE(growth, 0) << name;
  }
}

TEST(OneDnnBackend, draws_the_dropout_masks_of_philox) {
  const backend::onednn::DropoutStream stream{
      .seed = 7, .sample = 11, .epoch = 3, .stream = 99, .rate = 0.3F};
  for (const std::int64_t count : {1, 5, 128, 1003}) {
    std::vector<std::uint8_t> kept(static_cast<std::size_t>(count), 9);
    fill_dropout_mask(stream, count, kept.data());
    for (std::int64_t i = 0; i < count; ++i) {
      const auto words = tensor::philox(7, {11, 3, 99, static_cast<std::uint32_t>(i / 4)});
      const bool expected = tensor::to_uniform(words[static_cast<std::size_t>(i % 4)]) >= 0.3F;
      ASSERT_EQ(kept[static_cast<std::size_t>(i)], expected ? 1 : 0) << i << " of " << count;
    }
  }
}

TEST(OneDnnBackend, refuses_a_batch_of_another_size_and_labels_out_of_range) {
  const auto onednn = make_onednn_backend({});
  ModelRun run(*onednn, model("mlp", {1, 1, 28, 28}), {.rows = 4});
  Batch wrong = run.batch;
  wrong.labels = wrong.labels.first(3);
  EXPECT_THROW(run.executable->load(wrong), Error);
  run.labels[2] = 10;
  EXPECT_THROW(run.executable->load(run.batch), Error);
}

TEST(OneDnnBackend, refuses_an_order_that_it_never_handed_out) {
  const auto onednn = make_onednn_backend({});
  const tensor::Segment foreign{
      .name = "w", .dims = {2, 2}, .stored = 4, .layout = "2x2 stride 1x2"};
  std::vector<float> values(4);
  std::vector<float> to(4);
  EXPECT_THROW(onednn->to_canonical(foreign, values, to), Error);
}

TEST(OneDnnBackend, says_what_decides_its_bits) {
  const std::string direct = make_onednn_backend({})->fingerprint();
  EXPECT_NE(direct.find("oneDNN "), std::string::npos);
  EXPECT_NE(direct.find("threads=1"), std::string::npos);
  EXPECT_NE(direct, make_onednn_backend({.threads = 2})->fingerprint());
  EXPECT_NE(direct, make_onednn_backend({.winograd = true})->fingerprint());
}

}  // namespace
}  // namespace coxswain::test
