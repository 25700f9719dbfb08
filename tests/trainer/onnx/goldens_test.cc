#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "tests/support/model_run.h"
#include "trainer/backend/onednn/onednn_backend.h"
#include "trainer/backend/reference/reference_backend.h"
#include "trainer/graph/models/models.h"
#include "trainer/onnx/file.h"
#include "trainer/onnx/format.h"
#include "trainer/onnx/network.h"

namespace coxswain::onnx {
namespace {

const std::string kFolder = "tests/golden/onnx/";

Model golden(const std::string& name) {
  return read_model(kFolder + name + ".onnx", Values::kWithWeights);
}

// Value. A line of losses.txt.
struct Line {
  std::string name;
  bool training = false;
  std::vector<double> losses;
};

std::vector<Line> lines() {
  std::vector<Line> result;
  for (const char* losses : {"losses.txt", "keras/losses.txt"}) {
    std::ifstream file(kFolder + losses);
    for (std::string text; std::getline(file, text);) {
      std::istringstream words(text);
      Line line;
      std::string mode;
      words >> line.name >> mode;
      line.training = mode == "training";
      for (double loss = 0; words >> loss;) line.losses.push_back(loss);
      result.push_back(std::move(line));
    }
  }
  return result;
}

// A golden's network with its weights, on the images and labels of make.py.
class GoldenRun {
 public:
  GoldenRun(backend::Backend& on, const Model& model, graph::Mode mode)
      : weights_(weights_of(model)), run_(on, translate(model).graph, {.rows = 4, .mode = mode}) {
    for (std::size_t i = 0; i < run_.table.size(); ++i)
      run_.table[i] = static_cast<float>(i % 256) / 255;
    tensor::to_floats({run_.bytes, run_.table}, run_.program.graph.input().shape, run_.images);
    for (std::size_t i = 0; i < run_.labels.size(); ++i)
      run_.labels[i] = static_cast<std::int32_t>(i);
    for (const auto& tensor : weights_) write(tensor);
    run_.batch.global_count = 4;
  }

  double loss() { return run_.forward().loss / 4; }

  void step(float rate) {
    run_.backward();
    for (auto& tensor : weights_) {
      if (!tensor::is_trainable(run_.segment(tensor.name).kind)) continue;
      const std::vector<float> gradients = run_.gradients(tensor.name);
      for (std::size_t i = 0; i < gradients.size(); ++i) tensor.values[i] -= rate * gradients[i];
      write(tensor);
    }
  }

 private:
  void write(const checkpoint::NamedTensor& tensor) {
    const tensor::Segment& segment = run_.segment(tensor.name);
    std::vector<float> stored(static_cast<std::size_t>(segment.stored));
    run_.on.from_canonical(segment, tensor.values, stored);
    run_.parameters->memory().write(stored, run_.parameters->weights(segment));
  }

  std::vector<checkpoint::NamedTensor> weights_;
  test::ModelRun run_;
};

std::vector<std::unique_ptr<backend::Backend>> backends() {
  std::vector<std::unique_ptr<backend::Backend>> result;
  result.push_back(backend::make_reference_backend());
  result.push_back(backend::make_onednn_backend({.threads = 1}));
  return result;
}

TEST(Onnx, networks_of_pytorch_and_keras_train_and_score_as_there) {
  ASSERT_EQ(lines().size(), 20U + 12U);
  for (const auto& backend : backends()) {
    for (const Line& line : lines()) {
      GoldenRun run(*backend, golden(line.name),
                    line.training ? graph::Mode::kTraining : graph::Mode::kEvaluation);
      for (std::size_t step = 0; step < line.losses.size(); ++step) {
        if (step > 0) run.step(0.1F);
        EXPECT_NEAR(run.loss(), line.losses[step], 1e-4) << line.name << " at step " << step;
      }
    }
  }
}

// What an exporter calls things is no part of what is built.
TEST(Onnx, both_exporters_of_pytorch_give_one_network) {
  // TorchScript's exporter runs the network once more, which moves its running statistics.
  const auto learned = [](const std::string& name) {
    auto weights = weights_of(golden(name));
    std::erase_if(weights, [](const auto& tensor) {
      return tensor.name.find(".running_") != std::string::npos;
    });
    return weights;
  };
  EXPECT_TRUE(weights_of(golden("plain-opset13")) == weights_of(golden("plain-torchscript")));
  EXPECT_TRUE(learned("plain-dynamo") == learned("plain-torchscript"));
  const auto text = [](const std::string& name) {
    return graph::to_text(
        graph::compile(translate(golden(name)).graph, 2, Precision::kFp32, graph::Mode::kEvaluation)
            .graph);
  };
  EXPECT_EQ(text("plain-opset13"), text("plain-torchscript"));
  EXPECT_EQ(text("branches-opset13"), text("branches-torchscript"));
  EXPECT_EQ(text("branches-dynamo"), text("branches-torchscript"));
}

// As MXNet's exporter writes them: the operations of a network mean what they did.
TEST(Onnx, of_opset_7_is_read) {
  Model old = golden("plain-opset13");
  const auto text = [](const Model& model) { return graph::to_text(translate(model).graph); };
  const std::string expected = text(old);
  old.opset = 7;
  EXPECT_EQ(text(old), expected);
}

TEST(Onnx, in_a_checkpoint_is_the_network_without_its_weights) {
  for (const Line& line : lines()) {
    const Model model = golden(line.name);
    const std::string text = to_text(model);
    const Model back = from_text(text, "step-1");
    EXPECT_EQ(translate(back).graph, translate(model).graph) << line.name;
    EXPECT_EQ(to_text(back), text);
    EXPECT_EQ(to_text(read_model(kFolder + line.name + ".onnx", Values::kOfTheNetwork)), text);
  }
}

// The layers that take part, with what they do and how they are joined; not how they begin.
std::string compiled(const graph::Graph& graph) {
  const graph::Program program =
      graph::compile(graph, 2, Precision::kFp32, graph::Mode::kEvaluation);
  return graph::to_text(program.graph);
}

std::vector<checkpoint::NamedTensor> drawn(const graph::Graph& graph) {
  std::vector<checkpoint::NamedTensor> weights;
  float next = 0;
  for (const graph::Parameter& parameter : graph::parameters(graph::infer_shapes(graph, 1))) {
    std::size_t elements = 1;
    for (const std::int64_t dim : parameter.dims) elements *= static_cast<std::size_t>(dim);
    weights.push_back({parameter.name, parameter.dims, std::vector<float>(elements, ++next)});
  }
  return weights;
}

TEST(Onnx, that_is_written_is_read_as_the_same_network) {
  std::vector<graph::Graph> graphs;
  for (const Line& line : lines()) graphs.push_back(translate(golden(line.name)).graph);
  for (const auto model : {coxswain::Model::kMlp, coxswain::Model::kLenet,
                           coxswain::Model::kKerasCnn, coxswain::Model::kResnet18}) {
    const graph::ModelInfo& info = graph::model_info(model);
    graphs.push_back(graph::build_model(model, info.input, info.classes, 0));
  }
  for (const graph::Graph& graph : graphs) {
    const auto weights = drawn(graph);
    const std::string bytes = encode(to_model(graph, weights));
    EXPECT_EQ(encode(to_model(graph, weights)), bytes);
    const Model back = decode_model(std::as_bytes(std::span(bytes)), "again.onnx");
    EXPECT_TRUE(weights_of(back) == weights);
    EXPECT_EQ(compiled(translate(back).graph), compiled(graph));
  }
}

// MXNet's models have scales that are 1 and not trained; elsewhere these are weights.
TEST(Onnx, holds_scales_that_are_not_trained_as_ones) {
  const graph::ModelInfo& info = graph::model_info(coxswain::Model::kCifarResnet8);
  const graph::Graph graph =
      graph::build_model(coxswain::Model::kCifarResnet8, info.input, info.classes, 0);
  const auto weights = drawn(graph);
  std::map<std::string, checkpoint::NamedTensor> expected;
  for (const auto& tensor : weights) expected[tensor.name] = tensor;
  for (const auto& tensor : weights_of(to_model(graph, weights))) {
    const auto found = expected.find(tensor.name);
    if (found != expected.end())
      EXPECT_EQ(tensor, found->second);
    else
      EXPECT_EQ(tensor.values, std::vector<float>(tensor.values.size(), 1.0F)) << tensor.name;
  }
}

TEST(Onnx, network_fits_other_images_and_other_classes) {
  const Model model = golden("branches-torchscript");
  const graph::Graph graph =
      graph::infer_shapes(translate(model, tensor::Shape{1, 3, 16, 12}, 7).graph, 2);
  EXPECT_EQ(graph.input().shape, (tensor::Shape{2, 3, 16, 12}));
  EXPECT_EQ(graph.logits().shape, (tensor::Shape{2, 7, 1, 1}));
  EXPECT_EQ(graph.logits().name, "fc");
}

}  // namespace
}  // namespace coxswain::onnx
