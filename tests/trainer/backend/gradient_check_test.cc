#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "tests/support/test_flags.h"
#include "tests/support/model_run.h"
#include "trainer/backend/reference/reference_backend.h"

// Every gradient rule against differences of the loss. The loss comes from float32 edges: over a
// step of 1e-3 their rounding is worth about 1e-4. Where the slopes to both sides differ by more
// than kKink there is a kink in reach (relu, max) and differences say nothing: such elements are
// left out, and counted.
namespace coxswain::backend {
namespace {

using graph::Builder;
using graph::WeightInit;
using test::ModelRun;

constexpr float kStep = 1e-3F;
constexpr double kRelative = 2e-3;
constexpr double kAbsolute = 1.5e-3;
constexpr double kKink = 2e-3;  // an unseen kink moves a central difference by half of it at most
constexpr WeightInit kInit = WeightInit::kXavierUniform;

double loss_with(ModelRun& run, float& weight, float value) {
  const float before = weight;
  weight = value;
  run.executable->parameters_changed();
  const double loss = run.forward().loss;
  weight = before;
  return loss;
}

struct Difference {
  double derivative = 0;
  bool smooth = true;
};

Difference difference(ModelRun& run, float& weight) {
  const float at = weight;
  const float above = at + kStep;
  const float below = at - kStep;
  const double loss = loss_with(run, weight, at);
  const double loss_above = loss_with(run, weight, above);
  const double loss_below = loss_with(run, weight, below);
  const double slope_above = (loss_above - loss) / (static_cast<double>(above) - at);
  const double slope_below = (loss - loss_below) / (static_cast<double>(at) - below);
  return {(loss_above - loss_below) / (static_cast<double>(above) - below),
          std::abs(slope_above - slope_below) < kKink};
}

// Compares up to `most` elements of each trainable tensor, spread over it.
void expect_gradients_match(const graph::Graph& model, std::uint64_t seed, int most = 12) {
  const auto backend = make_reference_backend();
  ModelRun run(*backend, model, {.seed = seed});
  run.forward();
  run.backward();
  int smooth = 0;
  int all = 0;
  for (const tensor::Segment& s : run.parameters->layout().segments) {
    if (!tensor::is_trainable(s.kind)) continue;
    const std::vector<float> gradients = run.gradients(s.name);
    const std::size_t stride = gradients.size() / static_cast<std::size_t>(most) + 1;
    for (std::size_t i = 0; i < gradients.size(); i += stride) {
      const Difference d = difference(run, run.weights(s.name)[i]);  // canonical: the reference
      ++all;
      if (!d.smooth) continue;
      ++smooth;
      EXPECT_NEAR(gradients[i], d.derivative, kAbsolute + kRelative * std::abs(d.derivative))
          << s.name << "[" << i << "], seed " << seed << "\n"
          << graph::to_text(run.program);
    }
  }
  EXPECT_GE(smooth, all / 2) << "too near kinks to say anything, seed " << seed;
}

struct Row {
  const char* name;
  std::function<int(Builder&, int)>
      layers;  // from a convolution's output to what the last Dense reads
  float label_smoothing = 0;
};

const Row kRows[] = {
    {"conv_1x1", [](Builder& b, int x) { return b.conv(x, "c", 3, 1, 1, 0, false, kInit); }},
    {"conv_3x3_pad_bias",
     [](Builder& b, int x) { return b.conv(x, "c", 3, 3, 1, 1, true, kInit); }},
    {"conv_3x3_stride_2_pad",
     [](Builder& b, int x) { return b.conv(x, "c", 3, 3, 2, 1, true, kInit); }},
    {"conv_1x1_stride_2",
     [](Builder& b, int x) { return b.conv(x, "c", 3, 1, 2, 0, false, kInit); }},
    {"conv_4x4_stride_3_pad_2",
     [](Builder& b, int x) { return b.conv(x, "c", 3, 4, 3, 2, true, kInit); }},
    {"conv_relu",
     [](Builder& b, int x) { return b.relu(b.conv(x, "c", 3, 3, 1, 0, true, kInit)); }},
    {"conv_tanh",
     [](Builder& b, int x) { return b.tanh(b.conv(x, "c", 3, 3, 1, 0, true, kInit)); }},
    {"dense_relu", [](Builder& b, int x) { return b.relu(b.dense(x, "d", 7, true, kInit)); }},
    {"dense_tanh_flat",
     [](Builder& b, int x) { return b.tanh(b.dense(b.flatten(x), "d", 7, false, kInit)); }},
    {"norm", [](Builder& b, int x) { return b.batch_norm(x, "n"); }},
    {"norm_fixed_gamma", [](Builder& b, int x) { return b.batch_norm(x, "n", 2e-5F, true); }},
    {"norm_relu", [](Builder& b, int x) { return b.relu(b.batch_norm(x, "n")); }},
    {"norm_tanh", [](Builder& b, int x) { return b.tanh(b.batch_norm(x, "n")); }},
    {"norm_of_matrix",
     [](Builder& b, int x) { return b.batch_norm(b.dense(x, "d", 5, true, kInit), "n"); }},
    {"relu_alone", [](Builder& b, int x) { return b.relu(b.avg_pool(x, 2, 1)); }},
    {"tanh_alone", [](Builder& b, int x) { return b.tanh(b.avg_pool(x, 2, 1)); }},
    {"tanh_of_flat", [](Builder& b, int x) { return b.tanh(b.flatten(x)); }},
    {"gelu", [](Builder& b, int x) { return b.gelu(x); }},
    {"sigmoid", [](Builder& b, int x) { return b.sigmoid(x); }},
    {"silu", [](Builder& b, int x) { return b.silu(x); }},
    {"hard_swish", [](Builder& b, int x) { return b.hard_swish(x); }},
    {"hard_sigmoid", [](Builder& b, int x) { return b.hard_sigmoid(x); }},
    {"multiply", [](Builder& b, int x) { return b.multiply(b.tanh(x), b.sigmoid(x)); }},
    {"square", [](Builder& b, int x) { return b.multiply(x, x); }},
    {"gate",
     [](Builder& b, int x) {
       return b.multiply(x, b.sigmoid(b.conv(b.global_avg_pool(x), "c", 4, 1, 1, 0, true, kInit)));
     }},
    {"conv_padded_more_after",
     [](Builder& b, int x) {
       const int y = b.conv(x, "c", 3, 3, 2, 0, true, kInit);
       b.node(y).pad_extra = 1;
       return y;
     }},
    {"clip", [](Builder& b, int x) { return b.clip(x, -0.3F, 0.4F); }},
    {"conv_in_groups_stride_2",
     [](Builder& b, int x) { return b.conv(x, "c", 6, 3, 2, 1, true, kInit, 2); }},
    {"depthwise", [](Builder& b, int x) { return b.conv(x, "c", 4, 3, 1, 1, true, kInit, 4); }},
    {"depthwise_of_two_outputs",
     [](Builder& b, int x) { return b.relu6(b.conv(x, "c", 8, 3, 1, 0, false, kInit, 4)); }},
    {"concat",
     [](Builder& b, int x) {
       const int y = b.tanh(b.conv(x, "c1", 3, 3, 1, 1, true, kInit));
       return b.conv(b.concat({x, y}), "c2", 5, 3, 1, 1, true, kInit);
     }},
    {"concat_with_the_image_and_twice",
     [](Builder& b, int x) { return b.tanh(b.concat({x, b.input(), x})); }},
    {"concat_of_relu_and_pool",
     [](Builder& b, int x) {
       const int y = b.relu(x);
       return b.add(b.concat({y, b.max_pool(y, 3, 1, 1)}), b.conv(y, "c", 8, 1, 1, 0, true, kInit));
     }},
    {"max_pool", [](Builder& b, int x) { return b.max_pool(x, 2, 2); }},
    {"max_pool_overlapping_pad", [](Builder& b, int x) { return b.max_pool(x, 3, 2, 1); }},
    {"max_pool_of_relu", [](Builder& b, int x) { return b.max_pool(b.relu(x), 2, 2); }},
    {"max_pool_of_tanh", [](Builder& b, int x) { return b.max_pool(b.tanh(x), 2, 2); }},
    {"max_pool_of_norm_relu",
     [](Builder& b, int x) { return b.max_pool(b.relu(b.batch_norm(x, "n")), 3, 2, 1); }},
    {"max_pool_of_relu_read_twice",
     [](Builder& b, int x) {
       const int pool = b.max_pool(b.relu(x), 2, 2);
       return b.add(b.conv(pool, "c", 4, 3, 1, 1, true, kInit), pool);
     }},
    {"max_pool_beside_another_reader",
     [](Builder& b, int x) {
       const int y = b.relu(x);
       return b.add(b.max_pool(y, 3, 1, 1), y);
     }},
    {"avg_pool", [](Builder& b, int x) { return b.avg_pool(x, 3, 2); }},
    {"avg_pool_pad", [](Builder& b, int x) { return b.avg_pool(x, 3, 2, 1); }},
    {"avg_pool_that_counts_padding",
     [](Builder& b, int x) { return b.avg_pool(x, 3, 2, 1, /*counts_padding=*/true); }},
    {"global_avg_pool", [](Builder& b, int x) { return b.flatten(b.global_avg_pool(x)); }},
    {"dropout", [](Builder& b, int x) { return b.dropout(x, "drop", 0.4F); }},
    {"dropout_after_relu", [](Builder& b, int x) { return b.dropout(b.relu(x), "drop", 0.25F); }},
    {"add_relu",
     [](Builder& b, int x) { return b.relu(b.add(b.conv(x, "c", 4, 3, 1, 1, true, kInit), x)); }},
    {"add_tanh",
     [](Builder& b, int x) { return b.tanh(b.add(b.conv(x, "c", 4, 3, 1, 1, true, kInit), x)); }},
    {"add_to_itself", [](Builder& b, int x) { return b.add(x, x); }},
    {"add_read_twice",
     [](Builder& b, int x) {
       const int sum = b.add(b.conv(x, "c", 4, 3, 1, 1, false, kInit), x);
       return b.add(b.conv(sum, "c2", 4, 3, 1, 1, false, kInit), sum);
     }},
    {"preactivation_unit",
     [](Builder& b, int x) {
       const int first = b.relu(b.batch_norm(x, "n1"));
       const int y = b.relu(b.batch_norm(b.conv(first, "c1", 6, 3, 2, 1, false, kInit), "n2"));
       const int shortcut = b.conv(first, "sc", 6, 1, 2, 0, false, kInit);
       return b.add(b.conv(y, "c2", 6, 3, 1, 1, false, kInit), shortcut);
     }},
    {"label_smoothing", [](Builder& b, int x) { return b.tanh(x); }, 0.1F},
};

TEST(Gradients, match_differences_of_the_loss_for_every_operation) {
  std::vector<graph::Graph> models;
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    Builder b({1, 2, 6, 5});
    const int x = b.conv(b.input(), "first", 4, 3, 1, 1, true, kInit);
    const int y = row.layers(b, x);
    models.push_back(b.finish(b.dense(y, "last", 4, true, kInit), row.label_smoothing));
    expect_gradients_match(models.back(), 11);
  }
  EXPECT_THAT(test::operations_not_run(models), testing::IsEmpty());
}

TEST(Gradients, match_for_a_norm_that_reads_the_input) {
  for (const bool fixed_gamma : {true, false}) {
    Builder b({1, 2, 6, 5});
    const int x = b.tanh(b.batch_norm(b.input(), "n", 2e-5F, fixed_gamma));
    expect_gradients_match(b.finish(b.dense(x, "last", 4, true, kInit), 0), 12);
  }
}

TEST(Gradients, match_where_the_logits_are_activated) {
  Builder b({1, 2, 3, 3});
  expect_gradients_match(b.finish(b.tanh(b.dense(b.input(), "last", 4, true, kInit)), 0), 13);
}

// A chain of random layers in which any earlier output of the same shape may be added.
graph::Graph random_graph(std::mt19937_64& random) {
  const auto any = [&](int count) {
    return static_cast<int>(random() % static_cast<unsigned>(count));
  };
  Builder b({1, 2, 8, 7});
  int x = b.conv(b.input(), "first", 4, 3, 1, 1, true, kInit);
  int rows = 7;  // of the smaller side
  std::vector<int> addable{x};
  for (int layer = 0; layer < 5; ++layer) {
    switch (any(12)) {
      case 0:
        x = b.conv(x, fmt::format("c{}", layer), 4, 3, 1, 1, any(2) == 0, kInit);
        break;
      case 1:
        x = b.batch_norm(x, fmt::format("n{}", layer), 1e-3F, any(3) == 0);
        break;
      case 2:
        x = b.relu(x);
        break;
      case 3:
        x = b.tanh(x);
        break;
      case 4:
        x = b.gelu(x);
        break;
      case 5:
        x = b.dropout(x, fmt::format("drop{}", layer), 0.3F);
        break;
      case 6:
        x = b.max_pool(x, 3, 1, 1);
        break;
      case 7:
        x = b.silu(x);
        break;
      case 8:
        x = b.conv(x, fmt::format("d{}", layer), 4, 3, 1, 1, false, kInit, 4);
        break;
      case 9:
        x = b.concat({x, addable[static_cast<std::size_t>(any(static_cast<int>(addable.size())))]});
        x = b.conv(x, fmt::format("c{}", layer), 4, 1, 1, 0, true, kInit, 2);
        break;
      case 10:
        x = b.add(x, addable[static_cast<std::size_t>(any(static_cast<int>(addable.size())))]);
        break;
      default:
        if (rows < 3) break;
        x = any(2) == 0 ? b.max_pool(x, 2, 2) : b.avg_pool(x, 2, 2);
        rows /= 2;
        addable.clear();
    }
    addable.push_back(x);
  }
  return b.finish(b.dense(x, "last", 4, true, kInit), 0);
}

TEST(Gradients, match_for_random_graphs) {
  const std::uint64_t first = test::flags().seed_given ? test::flags().seed : 1;
  const std::uint64_t count = test::flags().seed_given ? 1 : 25;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    std::mt19937_64 random(seed);
    expect_gradients_match(random_graph(random), seed, 6);
  }
}

}  // namespace
}  // namespace coxswain::backend
