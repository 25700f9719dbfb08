#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/model_run.h"
#include "trainer/backend/loss.h"
#include "trainer/backend/reference/operations.h"
#include "trainer/backend/reference/reference_backend.h"
#include "trainer/contract/error.h"
#include "trainer/graph/models/models.h"
#include "trainer/tensor/philox.h"

namespace coxswain::backend {
namespace {

using graph::Activation;
using graph::Builder;
using graph::Mode;
using graph::Node;
using graph::Op;
using graph::WeightInit;
using tensor::Shape;
using test::edge_named;
using test::ModelRun;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Values = std::vector<float>;

constexpr WeightInit kInit = WeightInit::kXavierUniform;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Tensors {
  Shape in;
  Values x;
  Values weight = {};
  Values bias = {};
};

// What the forward step of a node alone gives.
Values forward_of(const Node& node, const Tensors& t) {
  Values y(static_cast<std::size_t>(node.shape.elements()));
  const reference::NodeParameter parameters[] = {{"weight", t.weight}, {"bias", t.bias}};
  reference::loops_of(node.op).forward(
      {.node = node, .in = t.in, .inputs = {t.x}, .out = y, .parameters = parameters});
  return y;
}

// One channel of 3x3 with a 2x2 window.
const Values kImage{1, 2, 3, 4, 5, 6, 7, 8, 9};

TEST(ReferenceConvolution, sums_the_window) {
  const Node node{.op = Op::kConv2d, .kernel = 2, .shape = {1, 1, 2, 2}};
  EXPECT_THAT(forward_of(node, {{1, 1, 3, 3}, kImage, {1, 10, 100, 1000}, {0.5F}}),
              ElementsAre(5421.5F, 6532.5F, 8754.5F, 9865.5F));
}

TEST(ReferenceConvolution, reads_zeros_outside_and_steps_by_the_stride) {
  const Node node{.op = Op::kConv2d, .kernel = 3, .stride = 2, .pad = 1, .shape = {1, 1, 2, 2}};
  EXPECT_THAT(forward_of(node, {{1, 1, 3, 3}, kImage, Values(9, 1)}), ElementsAre(12, 16, 24, 28));
}

TEST(ReferenceConvolution, adds_over_input_channels) {
  const Node node{.op = Op::kConv2d, .kernel = 1, .shape = {1, 2, 1, 2}};
  EXPECT_THAT(forward_of(node, {{1, 2, 1, 2}, {1, 2, 3, 4}, {1, 10, 2, 20}}),
              ElementsAre(31, 42, 62, 84));
}

TEST(ReferenceConvolution, reads_the_channels_of_its_group_alone) {
  const Node node{.op = Op::kConv2d, .kernel = 1, .groups = 2, .shape = {1, 4, 1, 1}};
  const Values weight{1, 10, 2, 20, 3, 30, 4, 40};  // four outputs, of two inputs each
  EXPECT_THAT(forward_of(node, {{1, 4, 1, 1}, {1, 2, 3, 4}, weight}),
              ElementsAre(21, 42, 129, 172));
}

TEST(ReferenceConcat, puts_channels_in_order_and_takes_them_apart) {
  const Node node{.op = Op::kConcat, .shape = {2, 3, 1, 2}};
  const Values a{1, 2, 3, 4};  // one channel, two samples
  const Values b{5, 6, 7, 8, 9, 10, 11, 12};
  Values y(12);
  reference::loops_of(node.op).forward(
      {.node = node, .in = {2, 1, 1, 2}, .inputs = {a, b}, .out = y});
  EXPECT_THAT(y, ElementsAre(1, 2, 5, 6, 7, 8, 3, 4, 9, 10, 11, 12));
  Values d_b(8);
  reference::loops_of(node.op).backward_data(
      {.node = node, .in = {2, 2, 1, 2}, .d_y = y, .out = d_b, .first_channel = 1});
  EXPECT_EQ(d_b, b);
}

TEST(ReferenceDense, multiplies_rows_by_the_matrix) {
  const Node node{.op = Op::kDense, .channels = 2, .shape = {2, 2, 1, 1}};
  EXPECT_THAT(forward_of(node, {{2, 3, 1, 1}, {1, 2, 3, 4, 5, 6}, {1, 0, 1, 0, 2, 0}, {0, 1}}),
              ElementsAre(4, 5, 10, 11));
}

TEST(ReferencePool, ignores_padding) {
  Node node{.op = Op::kMaxPool, .kernel = 2, .stride = 2, .pad = 1, .shape = {1, 1, 2, 2}};
  EXPECT_THAT(forward_of(node, {{1, 1, 3, 3}, {-1, -2, -3, -4, -5, -6, -7, -8, -9}}),
              ElementsAre(-1, -2, -4, -5));
  node.op = Op::kAvgPool;
  EXPECT_THAT(forward_of(node, {{1, 1, 3, 3}, kImage}), ElementsAre(1, 2.5F, 5.5F, 7));
  node.counts_padding = true;
  EXPECT_THAT(forward_of(node, {{1, 1, 3, 3}, kImage}), ElementsAre(0.25F, 1.25F, 2.75F, 7));
}

TEST(ReferencePool, sends_the_gradient_to_the_first_of_equals) {
  const Node node{.op = Op::kMaxPool, .kernel = 2, .stride = 2, .shape = {1, 1, 1, 1}};
  const Values x{3, 7, 7, 1};
  const Values d_y{2};
  Values d_x(4);
  reference::loops_of(node.op).backward_data(
      {.node = node, .in = {1, 1, 2, 2}, .inputs = {x}, .d_y = d_y, .out = d_x});
  EXPECT_THAT(d_x, ElementsAre(0, 2, 0, 0));
}

TEST(ReferencePool, and_relu_pass_a_nan_on) {
  const Node pool{.op = Op::kMaxPool, .kernel = 2, .stride = 2, .shape = {1, 1, 1, 1}};
  const Node relu{.op = Op::kRelu, .shape = {1, 1, 2, 2}};
  for (std::size_t place = 0; place < 4; ++place) {
    Values x{1, 2, 3, 4};
    x[place] = kNaN;
    EXPECT_TRUE(std::isnan(forward_of(pool, {{1, 1, 2, 2}, x})[0])) << place;
    EXPECT_TRUE(std::isnan(forward_of(relu, {{1, 1, 2, 2}, x})[place]));
  }
}

TEST(ReferenceGelu, has_known_values) {
  const Values y = forward_of({.op = Op::kGelu, .shape = {1, 3, 1, 1}}, {{1, 3, 1, 1}, {-1, 0, 2}});
  EXPECT_NEAR(y[0], -0.15865526, 1e-7);  // x times the normal distribution function
  EXPECT_EQ(y[1], 0);
  EXPECT_NEAR(y[2], 1.9544997, 1e-6);
}

TEST(ReferenceCurves, have_known_values_and_pass_a_nan_on) {
  const auto value = [](Op op, float x) {
    const Node node{.op = op, .low = 0, .high = 6, .shape = {1, 1, 1, 1}};
    return forward_of(node, {{1, 1, 1, 1}, {x}})[0];
  };
  EXPECT_NEAR(value(Op::kSigmoid, 1), 0.7310586, 1e-7);
  EXPECT_EQ(value(Op::kSigmoid, -200), 0);
  EXPECT_NEAR(value(Op::kSilu, -1), -0.2689414, 1e-7);
  EXPECT_NEAR(value(Op::kHardSwish, 1), 2.0 / 3, 1e-7);
  EXPECT_EQ(value(Op::kHardSwish, -3.5F), 0);
  EXPECT_EQ(value(Op::kHardSwish, 3.5F), 3.5F);
  EXPECT_EQ(value(Op::kClip, -1), 0);
  EXPECT_EQ(value(Op::kClip, 5.5F), 5.5F);
  EXPECT_EQ(value(Op::kClip, 7), 6);
  for (const Op op : {Op::kSigmoid, Op::kSilu, Op::kHardSwish, Op::kClip})
    EXPECT_TRUE(std::isnan(value(op, kNaN))) << static_cast<int>(op);
}

TEST(ReferenceClip, has_no_slope_at_its_ends) {
  const Node node{.op = Op::kClip, .low = 0, .high = 6, .shape = {1, 4, 1, 1}};
  const Values y{0, 3, 5.5F, 6};
  const Values d_y{1, 2, 3, 4};
  Values d_x(4);
  reference::loops_of(node.op).backward_data(
      {.node = node, .in = {1, 4, 1, 1}, .y = y, .d_y = d_y, .out = d_x});
  EXPECT_THAT(d_x, ElementsAre(0, 2, 3, 0));
}

Batch batch_of(const std::vector<std::int32_t>& labels, std::int64_t valid) {
  return {.images = {}, .labels = labels, .sample_ids = {}, .valid = valid, .global_count = 4};
}

TEST(ReferenceLoss, is_the_cross_entropy_of_the_softmax) {
  const std::vector<std::int32_t> labels{2};
  const Values logits{0, std::log(2.0F), std::log(5.0F)};  // probabilities 1/8, 2/8, 5/8
  const Shape shape{1, 3, 1, 1};
  EXPECT_NEAR(softmax_cross_entropy(shape, 0, logits, batch_of(labels, 1)).loss, -std::log(5.0 / 8),
              1e-6);
  const double smooth = -(0.9 * std::log(5.0 / 8) + 0.1 / 3 * std::log(1.0 / 8 * 2 / 8 * 5 / 8));
  EXPECT_NEAR(softmax_cross_entropy(shape, 0.1F, logits, batch_of(labels, 1)).loss, smooth, 1e-6);
  Values gradient(3);
  softmax_cross_entropy_gradient(shape, 0, logits, batch_of(labels, 1), gradient);
  EXPECT_NEAR(gradient[0], 0.125 / 4, 1e-7);
  EXPECT_NEAR(gradient[2], -0.375 / 4, 1e-7);
}

TEST(ReferenceLoss, of_equal_logits_does_not_depend_on_their_size) {
  const std::vector<std::int32_t> labels{4};
  for (const float z : {0.0F, 1e7F, 1e30F, -1e30F}) {
    for (const float smoothing : {0.0F, 0.1F}) {
      EXPECT_NEAR(
          softmax_cross_entropy({1, 10, 1, 1}, smoothing, Values(10, z), batch_of(labels, 1)).loss,
          std::log(10.0), 1e-12)
          << z;
    }
  }
}

TEST(ReferenceLoss, counts_the_first_of_equals_and_the_first_five) {
  struct Case {
    Values logits;
    std::int32_t label;
    std::int64_t correct, top5;
  };
  const float inf = std::numeric_limits<float>::infinity();
  for (const Case& c : {
           Case{{3, 1, 2, 0, 0, 0}, 0, 1, 1},
           Case{{1, 3, 2, 0, 0, 0}, 0, 0, 1},
           Case{{2, 2, 0, 0, 0, 0}, 0, 1, 1},  // first of equals
           Case{{2, 2, 0, 0, 0, 0}, 1, 0, 1},  // second of equals
           Case{{1, 2, 3, 4, 5, 6}, 0, 0, 0},  // five are greater
           Case{{1, 1, 1, 1, 1, 1}, 4, 0, 1},  // fifth of equals
           Case{{1, 1, 1, 1, 1, 1}, 5, 0, 0},
           Case{{kNaN, 0, 0, 0, 0, 0}, 0, 0, 0},
           Case{{kNaN, 9, 0, 0, 0, 0}, 1, 0, 1},
           Case{{inf, 9, 0, 0, 0, 0}, 0, 1, 1},
       }) {
    const std::vector<std::int32_t> labels{c.label};
    const LossSums sums = softmax_cross_entropy({1, 6, 1, 1}, 0, c.logits, batch_of(labels, 1));
    EXPECT_EQ(sums.correct, c.correct) << ::testing::PrintToString(c.logits);
    EXPECT_EQ(sums.correct_top5, c.top5) << ::testing::PrintToString(c.logits);
  }
}

TEST(ReferenceLoss, does_not_score_padding) {
  const std::vector<std::int32_t> labels{0, 1, -1};
  const Values logits{1, 2, 5, 0, kNaN, kNaN};
  const LossSums sums = softmax_cross_entropy({3, 2, 1, 1}, 0, logits, batch_of(labels, 2));
  EXPECT_EQ(sums.samples, 2);
  EXPECT_TRUE(std::isfinite(sums.loss));
  Values gradient(6, 9);
  softmax_cross_entropy_gradient({3, 2, 1, 1}, 0, logits, batch_of(labels, 2), gradient);
  EXPECT_EQ(gradient[4], 0);
  EXPECT_EQ(gradient[5], 0);
}

TEST(ReferenceLoss, is_not_finite_where_a_logit_is_not) {
  const std::vector<std::int32_t> labels{0};
  const float inf = std::numeric_limits<float>::infinity();
  for (const Values& logits :
       {Values{kNaN, 0}, Values{0, kNaN}, Values{inf, 0}, Values{-inf, 0}, Values{-inf, -inf}}) {
    const LossSums sums = softmax_cross_entropy({1, 2, 1, 1}, 0, logits, batch_of(labels, 1));
    EXPECT_FALSE(std::isfinite(sums.loss)) << ::testing::PrintToString(logits);
  }
}

graph::Graph norm_model() {
  Builder b({1, 2, 3, 3});
  return b.finish(b.dense(b.batch_norm(b.input(), "n"), "last", 3, true, kInit), 0);
}

TEST(ReferenceBatchNorm, puts_mean_and_unbiased_variance_into_the_gradients_of_its_statistics) {
  const auto backend = make_reference_backend();
  ModelRun run(*backend, norm_model(), {.rows = 2});
  run.forward();
  for (std::size_t c = 0; c < 2; ++c) {
    double sum = 0;
    double squares = 0;
    for (std::size_t i = 0; i < run.images.size(); ++i) {
      if (i / 9 % 2 != c) continue;
      sum += run.images[i];
      squares += static_cast<double>(run.images[i]) * run.images[i];
    }
    EXPECT_NEAR(run.gradients("n.running_mean")[c], sum / 18, 1e-6);
    EXPECT_NEAR(run.gradients("n.running_var")[c], (squares - sum * sum / 18) / 17, 1e-6);
  }
}

TEST(ReferenceBatchNorm, uses_the_running_values_in_evaluation) {
  const auto backend = make_reference_backend();
  ModelRun run(*backend, norm_model(), {.rows = 2, .mode = Mode::kEvaluation});
  const auto weight = [&](const char* name) { return run.weights(name)[1]; };
  run.forward();
  const Values y = run.executable->fetch(edge_named(run.program, "n"));
  const double deviation = std::sqrt(weight("n.running_var") + 1e-5);
  const double expected =
      (run.images[9] - weight("n.running_mean")) / deviation * weight("n.weight") +
      weight("n.bias");
  EXPECT_NEAR(y[9], expected, 1e-6);
}

graph::Graph dropout_model(float rate) {
  Builder b({1, 3, 7, 7});
  return b.finish(b.dense(b.dropout(b.input(), "drop", rate), "last", 3, true, kInit), 0);
}

TEST(ReferenceDropout, keeps_by_the_stated_counter_and_scales) {
  const auto backend = make_reference_backend();
  ModelRun run(*backend, dropout_model(0.25F), {.rows = 2});
  run.forward();
  const Values y = run.executable->fetch(edge_named(run.program, "drop"));
  for (std::size_t i = 0; i < y.size(); ++i) {
    const auto sample = static_cast<std::uint32_t>(run.sample_ids[i / 147]);
    const auto index = static_cast<std::uint32_t>(i % 147);
    const auto words =
        tensor::philox(run.batch.seed, {sample, 2, tensor::stream_of("drop"), index / 4});
    const bool kept = tensor::to_uniform(words[index % 4]) >= 0.25F;
    EXPECT_FLOAT_EQ(y[i], kept ? run.images[i] / 0.75F : 0);
  }
}

TEST(ReferenceDropout, is_the_identity_in_evaluation_and_draws_anew_each_epoch) {
  const auto backend = make_reference_backend();
  ModelRun evaluation(*backend, dropout_model(0.5F), {.mode = Mode::kEvaluation});
  evaluation.forward();
  EXPECT_EQ(evaluation.executable->fetch(edge_named(evaluation.program, "drop")),
            evaluation.images);

  ModelRun training(*backend, dropout_model(0.5F), {});
  training.forward();
  const Values first = training.executable->fetch(edge_named(training.program, "drop"));
  training.forward();
  EXPECT_EQ(training.executable->fetch(edge_named(training.program, "drop")), first);
  training.batch.epoch = 3;
  training.forward();
  EXPECT_NE(training.executable->fetch(edge_named(training.program, "drop")), first);
}

struct Narrow {
  Precision precision;
  tensor::DataType type;
};
constexpr Narrow kNarrow[] = {{Precision::kBf16, tensor::DataType::kBFloat16},
                              {Precision::kFp16, tensor::DataType::kFloat16}};

class Narrowed : public testing::TestWithParam<Narrow> {
 protected:
  static float round(float value) { return tensor::round_to(GetParam().type, value); }
};
INSTANTIATE_TEST_SUITE_P(Types, Narrowed, testing::ValuesIn(kNarrow), [](const auto& tested) {
  return std::string(word(tested.param.precision));
});

TEST_P(Narrowed, rounds_exactly_its_edges) {
  const auto is_rounded = [](float value) { return round(value) == value; };
  const auto backend = make_reference_backend();
  const graph::Graph model = graph::build_model(Model::kCifarResnet8, {1, 3, 8, 8}, 10, 0);
  ModelRun run(*backend, model, {.rows = 4, .precision = GetParam().precision});
  ModelRun wide(*backend, model, {.rows = 4});
  EXPECT_NEAR(run.forward().loss, wide.forward().loss, 0.2);
  run.backward();
  wide.backward();
  for (std::size_t e = 0; e < run.program.edges.size(); ++e) {
    const graph::Edge& edge = run.program.edges[e];
    const Values values = run.executable->fetch(static_cast<int>(e));
    const bool rounded = std::ranges::all_of(values, is_rounded);
    if (edge.name == "loss") continue;  // carries nothing
    EXPECT_EQ(rounded, edge.type == GetParam().type) << edge.name;
  }
  EXPECT_FALSE(std::ranges::all_of(run.gradients("conv0.weight"), is_rounded))
      << "gradients stay float32";
}

TEST_P(Narrowed, computes_from_rounded_inputs_and_weights) {
  const auto backend = make_reference_backend();
  Builder b({1, 1, 1, 1});
  const int x = b.dense(b.input(), "a", 1, false, kInit);
  ModelRun run(*backend, b.finish(b.dense(x, "b", 2, true, kInit), 0),
               {.rows = 1, .precision = GetParam().precision});
  const auto set = [&](const char* name, float value) { run.weights(name)[0] = value; };
  run.set_image(0, 1.2345678F);
  set("a.weight", 0.987654F);
  set("b.weight", -1.357911F);
  set("b.bias", 0.1234567F);  // biases stay as they are
  run.executable->parameters_changed();
  run.forward();
  const float a = round(round(1.2345678F) * round(0.987654F));
  EXPECT_EQ(run.executable->fetch(1)[0], a);
  EXPECT_FLOAT_EQ(run.executable->fetch(2)[0], a * round(-1.357911F) + 0.1234567F);
}

TEST(ReferenceBackend, reads_changed_weights_once_it_is_told) {
  for (const auto precision : {Precision::kFp32, Precision::kBf16, Precision::kFp16}) {
    const auto backend = make_reference_backend();
    ModelRun run(*backend, graph::build_model(Model::kMlp, {1, 1, 4, 4}, 10, 0),
                 {.precision = precision});
    const double before = run.forward().loss;
    for (float& w : run.weights("fc1.weight")) w *= 3;
    run.executable->parameters_changed();
    EXPECT_NE(run.forward().loss, before);
  }
}

TEST(ReferenceBackend, refuses_a_label_that_is_no_class) {
  const auto backend = make_reference_backend();
  ModelRun run(*backend, graph::build_model(Model::kMlp, {1, 1, 4, 4}, 10, 0), {.valid = 2});
  run.labels[2] = 99;  // a padding row: not looked at
  run.forward();
  for (const std::int32_t label : {10, -1}) {
    run.labels[1] = label;
    try {
      run.forward();
      ADD_FAILURE() << label;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput);
      EXPECT_THAT(error.what(), HasSubstr("sample 107 has label " + std::to_string(label)));
    }
  }
}

TEST(ReferenceBackend, refuses_a_batch_of_another_size) {
  const auto backend = make_reference_backend();
  ModelRun run(*backend, graph::build_model(Model::kMlp, {1, 1, 4, 4}, 10, 0), {});
  run.batch.images.bytes = run.batch.images.bytes.first(16);
  EXPECT_THROW(run.forward(), Error);
}

TEST(ReferenceBackend, refuses_a_buffer_of_another_model) {
  const auto backend = make_reference_backend();
  ModelRun run(*backend, graph::build_model(Model::kMlp, {1, 1, 4, 4}, 10, 0), {});
  const graph::Graph other = graph::build_model(Model::kLenet, {1, 1, 28, 28}, 10, 0);
  const auto program = graph::compile(other, 2, Precision::kFp32, Mode::kTraining);
  EXPECT_THROW(backend->prepare(program, *run.parameters), Error);
}

TEST(Backward, reports_gradients_as_they_complete) {
  const auto backend = make_reference_backend();
  ModelRun run(*backend, graph::build_model(Model::kCifarResnet8, {1, 3, 8, 8}, 10, 0), {});
  run.forward();
  std::vector<int> ends;
  backward(*run.executable, [&](int end) { ends.push_back(end); });
  EXPECT_EQ(ends.front(), 16);  // statistics of 8 norms
  EXPECT_TRUE(std::ranges::is_sorted(ends));
  EXPECT_EQ(ends.back(), static_cast<int>(run.program.parameters.size()));
}

TEST(ReferenceBackend, learns) {
  const auto backend = make_reference_backend();
  ModelRun run(*backend, graph::build_model(Model::kCifarResnet8, {1, 3, 8, 8}, 10, 0),
               {.rows = 8});
  run.batch.global_count = 8;
  optim::UpdateRule rule;
  const double first = run.forward().loss;
  for (int step = 0; step < 30; ++step) {
    run.forward();
    run.backward();
    backend->update(rule, {.lr = 0.1F}, 1, *run.parameters);
    run.executable->parameters_changed();
  }
  EXPECT_LT(run.forward().loss, 0.05 * first);
}

}  // namespace
}  // namespace coxswain::backend
