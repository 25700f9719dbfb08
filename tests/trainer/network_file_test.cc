#include "trainer/network_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "trainer/contract/error.h"
#include "trainer/graph/models/models.h"
#include "trainer/graph/passes.h"

namespace coxswain {
namespace {

using ::testing::HasSubstr;

// The first one of a page.
std::string documented(const char* name) {
  std::ifstream file(name);
  std::stringstream text;
  text << file.rdbuf();
  const std::string page = text.str();
  const std::size_t begin = page.find("```yaml\n") + 8;
  return page.substr(begin, page.find("```", begin) - begin);
}

graph::Graph built(const std::string& text, std::int64_t classes = 10) {
  const NetworkFile network = parse_network(text, "net.yaml");
  return graph::build_layers(network.layers, network.input, classes, 0);
}

std::string refusal_of(const std::string& text) {
  try {
    built(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  ADD_FAILURE() << "was accepted: " << text;
  return "";
}

TEST(NetworkFile, of_lenet_is_lenet) {
  EXPECT_EQ(documented("README.md"), documented("docs/networks.md"));
  const graph::Graph own = graph::infer_shapes(built(documented("docs/networks.md")), 4);
  const graph::Graph ours =
      graph::infer_shapes(graph::build_model(Model::kLenet, {1, 1, 28, 28}, 10, 0), 4);
  EXPECT_EQ(graph::to_text(graph::compile(own, 4, Precision::kFp32, graph::Mode::kTraining)),
            graph::to_text(graph::compile(ours, 4, Precision::kFp32, graph::Mode::kTraining)));
}

TEST(NetworkFile, has_residual_blocks_and_repeats_them) {
  const graph::Graph graph = graph::infer_shapes(built(R"(
input: [3, 8, 8]
layers:
- conv: {channels: 4, kernel: 3, pad: same, bias: false, name: stem}
- repeat:
    times: 3
    layers:
    - residual:
        body:
        - conv: {channels: 4, kernel: 3, pad: same}
        - batch-norm: {epsilon: 0.001}
    - gelu
- residual:
    body: [{conv: {channels: 8, kernel: 3, stride: 2, pad: same}}]
    shortcut: [{avg-pool: {kernel: 2}}, {conv: {channels: 8, kernel: 1}}]
- global-avg-pool
- dropout: 0.25
- dense: {outputs: classes, bias: false}
)"),
                                                 2);
  const auto count = [&](graph::Op op) {
    return std::ranges::count(graph.nodes, op, &graph::Node::op);
  };
  EXPECT_EQ(count(graph::Op::kConv2d), 6);
  EXPECT_EQ(count(graph::Op::kAdd), 4);
  EXPECT_EQ(count(graph::Op::kBatchNorm), 3);
  EXPECT_EQ(graph.nodes[1].name, "stem");
  EXPECT_EQ(graph.logits().shape, (tensor::Shape{2, 10, 1, 1}));
}

// The page's second example, between what it needs.
TEST(NetworkFile, has_groups_branches_and_curves) {
  std::ifstream file("docs/networks.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  const std::size_t begin = page.find("```yaml\n- residual:") + 8;
  const std::string example = page.substr(begin, page.find("```", begin) - begin);
  const graph::Graph graph = graph::infer_shapes(built(R"(
input: [3, 8, 8]
layers:
- conv: {channels: 16, kernel: 3, pad: same}
- silu
)" + example + R"(
- concat: {branches: [[], [sigmoid], [hard-swish, {conv: {channels: 6, kernel: 1, groups: 2}}]]}
- avg-pool: {kernel: 3, stride: 2, pad: 1, countsPadding: true}
- gate: {body: [{conv: {channels: 262, kernel: 1}}, hard-sigmoid]}
- dense: {outputs: classes}
)"),
                                                 2);
  const auto named = [&](const std::string& name) {
    return *std::ranges::find(graph.nodes, name, &graph::Node::name);
  };
  EXPECT_EQ(named("conv3").groups, 96);
  const auto weights = graph::parameters(graph);
  EXPECT_EQ(std::ranges::find(weights, std::string("conv3.weight"), &graph::Parameter::name)->dims,
            (std::vector<std::int64_t>{96, 1, 3, 3}));
  EXPECT_EQ(named("clip2").high, 6);
  EXPECT_EQ(named("concat1").shape, (tensor::Shape{2, 128, 8, 8}));
  EXPECT_EQ(named("concat2").inputs.size(), 3U);
  EXPECT_EQ(named("concat2").inputs[0],
            &*std::ranges::find(graph.nodes, std::string("concat1"), &graph::Node::name) -
                graph.nodes.data());
  EXPECT_EQ(named("concat2").shape.c, 128 + 128 + 6);
  EXPECT_TRUE(named("avgpool1").counts_padding);
  const graph::Node& gated = named("multiply1");
  EXPECT_EQ(graph.nodes[static_cast<std::size_t>(gated.inputs[0])].name, "avgpool1");
  EXPECT_EQ(graph.nodes[static_cast<std::size_t>(gated.inputs[1])].op, graph::Op::kHardSigmoid);
}

TEST(NetworkFile, says_what_weights_begin_as) {
  const graph::Graph graph = graph::infer_shapes(built(R"(
input: [3, 8, 8]
layers:
- conv: {channels: 24, kernel: 2, firstWeights: whitening}
- conv: {channels: 30, kernel: 3, firstWeights: identity}
- conv: {channels: 4, kernel: 1, firstWeights: he}
- batch-norm: {scale: false}
- dense: {outputs: classes}
)"),
                                                 2);
  EXPECT_EQ(graph.nodes[1].weight_init, graph::WeightInit::kWhitening);
  EXPECT_EQ(graph.nodes[2].weight_init, graph::WeightInit::kIdentity);
  EXPECT_EQ(graph.nodes[3].weight_init, graph::WeightInit::kHeNormalIn);
  EXPECT_TRUE(graph.nodes[4].fixed_gamma);
}

TEST(NetworkFile, that_does_not_fit_names_its_line) {
  const std::string head = "input: [1, 28, 28]\nlayers:\n";
  const auto refused = [&](const std::string& layers, const std::string& message) {
    EXPECT_THAT(refusal_of(head + layers), HasSubstr(message)) << layers;
  };
  refused("- conv: {channels: 4, kernel: 3}\n- max-pool: {kernel: 40}\n- dense: {outputs: classes}",
          "net.yaml:4: layer maxpool1: a 40x40 window with pad 0 does not fit");
  refused(
      "- residual:\n    body:\n    - conv: {channels: 4, kernel: 3}\n- dense: {outputs: classes}",
      "net.yaml:3: layer add1: its inputs differ");
  refused("- conv: {channels: 4, kernel: 3}",
          "net.yaml:3: the last layer gives 1x4x26x26 where 10");
  refused("- dense: {outputs: 9}", "net.yaml:3: the last layer gives 1x9x1x1 where 10");
  refused("- relu\n- cov: {channels: 4}", "net.yaml:4: unknown layer \"cov\"");
  refused("- conv: {chanels: 4, kernel: 3}",
          "net.yaml:3: unknown key \"chanels\"; did you mean channels?");
  refused("- conv: {channels: 4}", "net.yaml:3: kernel: required");
  refused("- conv", "net.yaml:3: conv: needs channels, kernel");
  refused("- relu: {slope: 1}", "net.yaml:3: unknown key \"slope\"; known here: none");
  refused("- conv: {channels: 0, kernel: 3}", "net.yaml:3: channels: must be an integer, 1..65536");
  refused("- conv: {channels: 4, kernel: 4, pad: same}", "pad: same needs an odd kernel");
  refused("- dropout: 1", "rate: must be a number, at least 0, below 1");
  refused("- residual: {body: []}\n- dense: {outputs: classes}",
          "net.yaml:3: has no layers in its body");
  refused("- gate: {body: []}\n- dense: {outputs: classes}",
          "net.yaml:3: has no layers in its body");
  refused("- gate: {body: [{conv: {channels: 2, kernel: 1}}]}",
          "net.yaml:3: layer multiply1: input is 1x1x28x28, conv1 is 1x2x28x28: must be");
  refused("- conv: {channels: 4, kernel: 3, firstWeights: white}",
          "net.yaml:3: firstWeights: must be one of he, identity, whitening, got \"white\"");
  refused("- relu\n- conv: {channels: 4, kernel: 3, firstWeights: whitening}",
          "net.yaml:4: firstWeights: whitening is for the first layer alone");
  refused("- concat:\n    branches:\n"
          "    - [{conv: {channels: 2, kernel: 3, firstWeights: whitening}}]\n"
          "    - [{conv: {channels: 2, kernel: 3, firstWeights: whitening}}]",
          "net.yaml:6: firstWeights: whitening is for one convolution alone");
  refused("- conv: {channels: 2, kernel: 3, groups: depthwise, firstWeights: identity}",
          "net.yaml:3: firstWeights: identity has no groups");
  refused("- repeat: {times: 2000, layers: []}", "net.yaml:3: repeat: layers is empty");
  refused("- conv: {channels: 19, kernel: 3, firstWeights: whitening}",
          "net.yaml:3: firstWeights: whitening gives at most 18 channels, twice the 9 values");
  refused("- conv: {channels: 4, kernel: 17, firstWeights: whitening}",
          "net.yaml:3: firstWeights: whitening is of patches within the image, of at most 256");
  refused("- conv: {channels: 4, kernel: 3, name: a/b}", "name: must be 1 to 60 letters");
  refused("- dense: {outputs: 4, name: a}\n- dense: {outputs: classes, name: a}",
          "net.yaml:4: two layers have the name a");
  refused(
      "- conv: {channels: 4, kernel: 3}\n- conv: {channels: 6, kernel: 3, groups: depthwise}",
      "net.yaml:4: layer conv2: 4 groups: neither the 4 channels of its input 1x4x26x26 nor its 6");
  refused("- conv: {channels: 4, kernel: 3, groups: all}",
          "net.yaml:3: groups: must be an integer, 1..65536");
  refused("- concat: {branches: [[relu], [{max-pool: {kernel: 2}}]]}",
          "net.yaml:3: layer concat1: its inputs differ in more than channels: relu1 is 1x1x28x28");
  refused("- concat: {branches: [[relu]]}",
          "net.yaml:3: branches: must be a list of 2 to 64 lists of layers");
  refused("- concat: {branches: [relu, []]}", "net.yaml:3: branches: must be a list of layers");
  refused("- concat", "net.yaml:3: concat: needs branches");
  refused("- [relu]", "a layer is a word, or a mapping of one");
  refused("- repeat: {times: 2001, layers: [relu]}", "times: must be an integer, 1..2000");
  refused("- repeat: {times: 2000, layers: [relu, relu]}", "more than 2000 layers");
  EXPECT_THAT(refusal_of("layers: []"), HasSubstr("a network without layers"));
  EXPECT_THAT(refusal_of("layers: 3"), HasSubstr("net.yaml:1: layers: must be a list"));
  EXPECT_THAT(refusal_of("input: [1, 28]\nlayers: [relu]"),
              HasSubstr("input: must be three numbers"));
  EXPECT_THAT(refusal_of("layer: []"), HasSubstr("unknown key \"layer\"; did you mean layers?"));
  EXPECT_THAT(refusal_of("- relu"), HasSubstr("must be a mapping with `layers`"));
  EXPECT_THAT(refusal_of(std::string(70000, ' ')), HasSubstr("the limit is 65536"));
  std::string deep = "- relu";
  for (int i = 0; i < 9; ++i)
    deep = fmt::format("- repeat: {{times: 1, layers: [{}]}}", deep.substr(2));
  refused(deep, "more than 8 levels deep");
}

}  // namespace
}  // namespace coxswain
