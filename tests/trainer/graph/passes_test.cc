#include "trainer/graph/passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "trainer/contract/error.h"
#include "trainer/graph/operations.h"

namespace coxswain::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr WeightInit kInit = WeightInit::kXavierUniform;

struct Refusal {
  const char* name;
  std::function<Graph()> model;
  std::vector<std::string> message_has;
};

const Refusal kRefusals[] = {
    {"window too large",
     [] {
       Builder b({1, 3, 4, 4});
       return b.finish(
           b.dense(b.conv(b.input(), "c1", 8, 7, 1, 1, false, kInit), "fc", 2, true, kInit), 0);
     },
     {"[model] layer c1", "7x7", "2x3x4x4", "2x8x0x0"}},
    {"pool too large",
     [] {
       Builder b({1, 3, 4, 4});
       return b.finish(b.dense(b.max_pool(b.input(), 5, 2), "fc", 2, true, kInit), 0);
     },
     {"layer maxpool1", "2x3x4x4", "2x3x0x0"}},
    {"padding not below the kernel",
     [] {
       Builder b({1, 3, 4, 4});
       return b.finish(b.dense(b.avg_pool(b.input(), 2, 2, 2), "fc", 2, true, kInit), 0);
     },
     {"layer avgpool1", "kernel=2", "pad=2"}},
    {"stride zero",
     [] {
       Builder b({1, 3, 4, 4});
       return b.finish(b.dense(b.max_pool(b.input(), 2, 0), "fc", 2, true, kInit), 0);
     },
     {"layer maxpool1", "stride=0"}},
    {"add of different shapes",
     [] {
       Builder b({1, 3, 4, 4});
       const int x = b.conv(b.input(), "c1", 3, 3, 1, 0, false, kInit);
       return b.finish(b.dense(b.add(x, b.input()), "fc", 2, true, kInit), 0);
     },
     {"layer add1", "c1 is 2x3x2x2", "input is 2x3x4x4"}},
    {"groups that leave a rest",
     [] {
       Builder b({1, 4, 4, 4});
       return b.finish(
           b.dense(b.conv(b.input(), "c1", 8, 3, 1, 1, false, kInit, 3), "fc", 2, true, kInit), 0);
     },
     {"layer c1", "3 groups", "4 channels", "2x4x4x4", "8 outputs"}},
    {"concat of different sizes",
     [] {
       Builder b({1, 3, 4, 4});
       const int x = b.conv(b.input(), "c1", 3, 3, 1, 0, false, kInit);
       return b.finish(b.dense(b.concat({b.input(), x}), "fc", 2, true, kInit), 0);
     },
     {"layer concat1", "input is 2x3x4x4", "c1 is 2x3x2x2"}},
    {"concat of too many channels",
     [] {
       Builder b({1, 65536, 1, 1});
       int x = b.input();
       for (int i = 0; i < 3; ++i) x = b.concat(std::vector<int>(16, x));
       return b.finish(b.dense(x, "fc", 2, true, kInit), 0);
     },
     {"layer concat3", "268435456 channels", "16777216"}},
    {"clip of everything",
     [] {
       Builder b({1, 3, 4, 4});
       return b.finish(b.dense(b.clip(b.input(), 6, 6), "fc", 2, true, kInit), 0);
     },
     {"layer clip1", "between 6 and 6"}},
    {"loss on an image",
     [] {
       Builder b({1, 3, 4, 4});
       return b.finish(b.conv(b.input(), "c1", 3, 3, 1, 0, false, kInit), 0);
     },
     {"layer loss", "2x3x1x1", "2x3x2x2"}},
    {"no outputs",
     [] {
       Builder b({1, 3, 4, 4});
       return b.finish(b.dense(b.input(), "fc", 0, true, kInit), 0);
     },
     {"layer fc", "2x3x4x4", "has 0"}},
    {"dropout of everything",
     [] {
       Builder b({1, 3, 4, 4});
       return b.finish(b.dense(b.dropout(b.input(), "drop", 1), "fc", 2, true, kInit), 0);
     },
     {"layer drop", "rate 1"}},
    {"smoothing of everything",
     [] {
       Builder b({1, 3, 4, 4});
       return b.finish(b.dense(b.input(), "fc", 2, true, kInit), 1);
     },
     {"layer loss", "smoothing 1"}},
    {"one name twice",
     [] {
       Builder b({1, 3, 4, 4});
       return b.finish(b.dense(b.dense(b.input(), "fc", 2, true, kInit), "fc", 2, true, kInit), 0);
     },
     {"layer fc", "two layers"}},
    {"a layer without a reader",
     [] {
       Builder b({1, 3, 4, 4});
       b.relu(b.input());
       return b.finish(b.dense(b.input(), "fc", 2, true, kInit), 0);
     },
     {"layer relu1", "no layer reads"}},
    {"an empty input",
     [] {
       Builder b({1, 3, 0, 4});
       return b.finish(b.dense(b.input(), "fc", 2, true, kInit), 0);
     },
     {"layer input", "x3x0x4"}},
};

std::string message_of(const Graph& graph, std::int64_t batch_size) {
  try {
    infer_shapes(graph, batch_size);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  return "accepted";
}

TEST(InferShapes, refuses_a_bad_model_naming_the_layer_and_both_shapes) {
  for (const Refusal& row : kRefusals) {
    SCOPED_TRACE(row.name);
    const std::string message = message_of(row.model(), 2);
    for (const std::string& part : row.message_has) EXPECT_THAT(message, HasSubstr(part));
  }
}

TEST(InferShapes, refuses_a_batch_of_no_rows) {
  Builder b({1, 3, 4, 4});
  EXPECT_THAT(message_of(b.finish(b.dense(b.input(), "fc", 2, true, kInit), 0), 0),
              HasSubstr("batch size 0"));
}

TEST(InferShapes, refuses_more_values_than_32_bits_count) {
  const auto images = [](std::int64_t side, std::int64_t outputs) {
    Builder b({1, 3, side, side});
    return b.finish(b.dense(b.global_avg_pool(b.input()), "fc", outputs, true, kInit), 0);
  };
  EXPECT_THAT(message_of(images(1024, 2), 32768),
              HasSubstr("layer input: its activations of 32768x3x1024x1024 have more than the "
                        "2147483647 values that fit: lower the batch size"));
  EXPECT_THAT(message_of(images(4096, 2), std::int64_t{1} << 54), HasSubstr("layer input"));
  EXPECT_EQ(message_of(images(1024, 2), 682), "accepted");  // 2,145,386,496
  EXPECT_THAT(message_of(images(1024, 2), 683), HasSubstr("layer input"));
  EXPECT_THAT(message_of(images(16, 100'000'000), 50), HasSubstr("layer fc: its activations"));
  EXPECT_THAT(message_of(images(16, 800'000'000), 1), HasSubstr("layer fc: its weights of "));
}

TEST(InferShapes, rounds_windows_down) {
  struct Case {
    int kernel, stride, pad;
    std::int64_t out;
  };
  // 7 rows: (7 + 2 pad - kernel) / stride + 1
  for (const Case& c :
       {Case{3, 2, 0, 3}, Case{2, 2, 0, 3}, Case{3, 2, 1, 4}, Case{7, 1, 3, 7}, Case{7, 5, 0, 1}}) {
    Builder b({1, 1, 7, 7});
    const int x = b.max_pool(b.input(), c.kernel, c.stride, c.pad);
    const Graph graph = infer_shapes(b.finish(b.dense(x, "fc", 2, true, kInit), 0), 5);
    EXPECT_EQ(graph.nodes[1].shape, (Shape{5, 1, c.out, c.out}));
  }
}

// "conv2d+relu dense": operations in order with what was fused into them, loss and input left out.
std::string operations(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes) {
    if (node.op == Op::kInput || node.op == Op::kSoftmaxCrossEntropy) continue;
    if (!text.empty()) text += " ";
    text += operation(node.op).name;
    if (node.activation != Activation::kNone) text += "+" + std::string(name_of(node.activation));
  }
  return text;
}

struct Fusion {
  std::function<int(Builder&)> layers;
  const char* fused;
};

const Fusion kFusions[] = {
    {[](Builder& b) { return b.relu(b.conv(0, "c", 4, 3, 1, 1, true, kInit)); },
     "conv2d+relu dense"},
    {[](Builder& b) { return b.tanh(b.dense(0, "d", 4, true, kInit)); }, "dense+tanh dense"},
    {[](Builder& b) { return b.relu(b.batch_norm(0, "n")); }, "batchnorm+relu dense"},
    {[](Builder& b) { return b.tanh(b.add(0, 0)); }, "add+tanh dense"},
    {[](Builder& b) { return b.gelu(b.conv(0, "c", 4, 3, 1, 1, true, kInit)); },
     "conv2d gelu dense"},
    {[](Builder& b) { return b.relu(b.max_pool(0, 2, 2)); }, "maxpool relu dense"},
    {[](Builder& b) { return b.tanh(b.relu(b.batch_norm(0, "n"))); }, "batchnorm+relu tanh dense"},
    {[](Builder& b) {
       const int x = b.batch_norm(0, "n");
       return b.add(b.relu(x), x);  // another reader wants the value before the relu
     },
     "batchnorm relu add dense"},
    {[](Builder& b) {
       const int x = b.relu(b.batch_norm(0, "n"));
       return b.add(x, x);
     },
     "batchnorm+relu add dense"},
    {[](Builder& b) { return b.relu6(b.batch_norm(0, "n")); }, "batchnorm clip dense"},
    {[](Builder& b) {
       const int x = b.relu(b.batch_norm(0, "n"));
       return b.relu(b.concat({x, 0}));
     },
     "batchnorm+relu concat relu dense"},
    {[](Builder& b) { return b.flatten(b.batch_norm(0, "n")); }, "batchnorm dense"},
    {[](Builder& b) { return b.flatten(0); }, "dense"},
    {[](Builder& b) { return b.tanh(b.flatten(0)); }, "flatten tanh dense"},
    {[](Builder& b) { return b.relu(b.flatten(b.batch_norm(0, "n"))); },
     "batchnorm flatten relu dense"},
};

TEST(Fuse, follows_the_table) {
  for (const Fusion& row : kFusions) {
    Builder b({1, 4, 4, 4});
    const Graph graph =
        infer_shapes(b.finish(b.dense(row.layers(b), "last", 2, true, kInit), 0), 3);
    const Graph fused = fuse(graph);
    EXPECT_EQ(operations(fused), row.fused);
    EXPECT_EQ(parameters(fused).size(), parameters(graph).size());
    EXPECT_EQ(infer_shapes(fused, 3), fused) << "shapes stay";
  }
}

TEST(AssignTypes, keeps_input_and_logits_wide) {
  Builder b({1, 4, 4, 4});
  const int x = b.relu(b.conv(b.input(), "c", 4, 3, 1, 1, true, kInit));
  const Graph graph = b.finish(b.dense(b.max_pool(x, 2, 2), "last", 2, true, kInit), 0);
  const Program program = compile(graph, 2, Precision::kBf16, Mode::kTraining);
  std::vector<std::string> wide;
  for (const Edge& edge : program.edges) {
    if (edge.type == DataType::kFloat32) wide.push_back(edge.name);
  }
  EXPECT_THAT(wide, ElementsAre("input", "last", "loss"));
}

// "join: a, b -> c" of every join in a program.
std::vector<std::string> joins(const Program& program) {
  std::vector<std::string> result;
  for (const Step& step : program.steps) {
    if (step.kind != StepKind::kJoinGradients) continue;
    std::string text = program.graph.nodes[static_cast<std::size_t>(step.node)].name + ":";
    for (const int edge : step.reads)
      text += " " + program.edges[static_cast<std::size_t>(edge)].name;
    result.push_back(text + " " + std::string(name_of(joined_activation(program, step))));
  }
  return result;
}

Program training(const Graph& graph) {
  return compile(graph, 2, Precision::kFp32, Mode::kTraining);
}

TEST(Differentiate, takes_the_derivative_of_a_relu_after_the_pool_that_alone_reads_it) {
  Builder b({1, 4, 4, 4});
  const int x = b.max_pool(b.relu(b.conv(b.input(), "c", 4, 3, 1, 1, true, kInit)), 2, 2);
  EXPECT_THAT(joins(training(b.finish(b.dense(x, "last", 2, true, kInit), 0))),
              ElementsAre("maxpool1: d(maxpool1)<-last maxpool1 relu"));
}

TEST(Differentiate, takes_other_activations_at_their_own_output) {
  Builder b({1, 4, 4, 4});
  const int x = b.max_pool(b.tanh(b.conv(b.input(), "c", 4, 3, 1, 1, true, kInit)), 2, 2);
  EXPECT_THAT(joins(training(b.finish(b.dense(x, "last", 2, true, kInit), 0))),
              ElementsAre("c: d(c)<-maxpool1 c tanh"));
}

TEST(Differentiate, leaves_a_norms_activation_to_the_norm) {
  Builder b({1, 4, 4, 4});
  const int x = b.max_pool(b.relu(b.batch_norm(b.input(), "n")), 2, 2);
  EXPECT_THAT(joins(training(b.finish(b.dense(x, "last", 2, true, kInit), 0))), ElementsAre());
}

TEST(Differentiate, joins_what_several_readers_contribute) {
  Builder b({1, 4, 4, 4});
  const int x = b.relu(b.conv(b.input(), "c", 4, 3, 1, 1, true, kInit));
  const int y = b.add(b.max_pool(x, 3, 1, 1), x);
  EXPECT_THAT(joins(training(b.finish(b.dense(y, "last", 2, true, kInit), 0))),
              ElementsAre("c: d(add1) d(c)<-maxpool1 c relu"));
}

TEST(Differentiate, gives_the_input_no_gradient) {
  Builder b({1, 4, 4, 4});
  const int relu = b.relu(b.input());
  const int x = b.add(relu, b.conv(b.input(), "c", 4, 3, 1, 1, true, kInit));
  const Program program = training(b.finish(b.dense(x, "last", 2, true, kInit), 0));
  EXPECT_EQ(program.gradient_of(0), -1);
  EXPECT_EQ(program.gradient_of(relu), -1) << "the relu of the input needs none either";
  for (const Step& step : program.steps) {
    if (step.kind == StepKind::kForward) continue;
    EXPECT_NE(program.graph.nodes[static_cast<std::size_t>(step.node)].name, "relu1");
  }
}

TEST(Differentiate, completes_every_gradient_once_in_buffer_order) {
  Builder b({1, 4, 4, 4});
  int x = b.batch_norm(b.input(), "data", 2e-5F, true);
  x = b.relu(b.batch_norm(b.conv(x, "c", 4, 3, 1, 1, true, kInit), "n"));
  const Program program = training(b.finish(b.dense(x, "last", 2, true, kInit), 0));
  std::vector<int> completed;
  for (const Step& step : program.steps)
    completed.insert(completed.end(), step.completes.begin(), step.completes.end());
  std::vector<int> all(program.parameters.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
  EXPECT_EQ(completed, all);
}

TEST(Differentiate, gives_evaluation_the_same_parameters_and_no_backward) {
  Builder b({1, 4, 4, 4});
  const int x = b.relu(b.batch_norm(b.conv(b.input(), "c", 4, 3, 1, 1, true, kInit), "n"));
  const Graph graph = b.finish(b.dense(x, "last", 2, true, kInit), 0);
  const Program evaluation = compile(graph, 7, Precision::kFp32, Mode::kEvaluation);
  EXPECT_EQ(evaluation.parameters, training(graph).parameters);
  EXPECT_EQ(evaluation.first_backward, static_cast<int>(evaluation.steps.size()));
  EXPECT_EQ(evaluation.steps.back().node, static_cast<int>(evaluation.graph.nodes.size()) - 1);
}

}  // namespace
}  // namespace coxswain::graph
