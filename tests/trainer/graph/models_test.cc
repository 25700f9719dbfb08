#include "trainer/graph/models/models.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "trainer/graph/passes.h"

namespace coxswain::graph {
namespace {

struct Row {
  Model model;
  Shape input;
  std::int64_t classes;
  std::int64_t parameters;
  std::optional<int> tensors;
  std::optional<std::int64_t> running_values;
  std::string_view mmac =
      "";  // millions of multiply-accumulates, with the digits of the source's table
};

const Shape kDigits{1, 1, 28, 28};
const Shape kSmall{1, 3, 28, 28};
const Shape kCifar{1, 3, 32, 32};
const Shape kImageNet{1, 3, 224, 224};

const Row kRows[] = {
    {Model::kMlp, kDigits, 10, 109386, 6, 0, "0.11"},
    {Model::kLenet, kDigits, 10, 431080, 8, 0, "2.29"},
    {Model::kSingaCnn, kDigits, 10, 431080, 8, 0, "2.29"},
    {Model::kKerasCnn, kDigits, 10, 1199882, 8, 0, "11.99"},
    {Model::kD2lResnet18, kCifar, 10, 11176970, 76, 7808, "555.4"},
    {Model::kCifarResnet8, kSmall, 10, 78109, 27, {}, "9.77"},
    {Model::kCifarResnet20, kSmall, 10, 272541, {}, {}, "31.45"},
    {Model::kCifarResnet50, kSmall, 10, 758621, 153, {}, "85.6"},
    {Model::kCifarResnet56, kSmall, 10, 855837, {}, {}},
    {Model::kCifarResnet110, kSmall, 10, 1730781, 333, {}, "194"},
    {Model::kCifarResnet164, kSmall, 10, 1703261, {}, {}},
    {Model::kResnet18, kImageNet, 1000, 11689512, 62, 9600, "1814"},
    {Model::kResnet34, kImageNet, 1000, 21797672, {}, {}},
    {Model::kResnet50, kImageNet, 1000, 25557032, 161, 53120, "4089"},
};

std::int64_t elements(const Parameter& p) {
  std::int64_t count = 1;
  for (const std::int64_t dim : p.dims) count *= dim;
  return count;
}

TEST(Models, have_the_published_sizes) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(word(row.model));
    const Graph graph = infer_shapes(build_model(row.model, row.input, row.classes, 0), 1);
    std::int64_t trainable = 0;
    std::int64_t running = 0;
    int tensors = 0;
    for (const Parameter& p : parameters(graph)) {
      if (!tensor::is_trainable(p.kind)) {
        running += elements(p);
        continue;
      }
      trainable += elements(p);
      ++tensors;
    }
    EXPECT_EQ(trainable, row.parameters);
    EXPECT_EQ(tensors, row.tensors.value_or(tensors));
    EXPECT_EQ(running, row.running_values.value_or(running));
    if (row.mmac.empty()) continue;
    const auto point = row.mmac.find('.');
    const std::size_t digits = point == row.mmac.npos ? 0 : row.mmac.size() - point - 1;
    EXPECT_EQ(
        fmt::format("{:.{}f}", static_cast<double>(multiply_accumulates(graph)) / 1e6, digits),
        row.mmac);
  }
}

TEST(Models, are_all_built_with_the_defaults_that_they_state) {
  for (const ModelInfo& info : models()) {
    SCOPED_TRACE(word(info.model));
    const Graph graph = infer_shapes(build_model(info.model, info.input, info.classes, 0.1F), 2);
    EXPECT_EQ(graph.logits().shape, (Shape{2, info.classes, 1, 1}));
    EXPECT_EQ(graph.loss().label_smoothing, 0.1F);
    EXPECT_FALSE(info.source.empty());
  }
}

TEST(Models, for_small_images_take_28_and_32_rows) {
  for (const Model model : {Model::kCifarResnet8, Model::kCifarResnet20, Model::kCifarResnet164}) {
    const Graph small = infer_shapes(build_model(model, kSmall, 10, 0), 1);
    const Graph large = infer_shapes(build_model(model, kCifar, 10, 0), 1);
    EXPECT_EQ(small.nodes[small.nodes.size() - 5].shape.h, 7);
    EXPECT_EQ(large.nodes[large.nodes.size() - 5].shape.h, 8);
    EXPECT_EQ(parameters(small), parameters(large));
  }
}

TEST(Models, of_torchvision_have_its_tensor_names) {
  const Graph graph = infer_shapes(build_model(Model::kResnet50, kImageNet, 1000, 0), 1);
  std::vector<std::string> names;
  for (const Parameter& p : parameters(graph)) names.push_back(p.name);
  for (const char* name :
       {"conv1.weight", "bn1.running_mean", "layer1.0.conv1.weight", "layer1.0.downsample.0.weight",
        "layer1.0.downsample.1.running_var", "layer4.2.bn3.bias", "fc.weight", "fc.bias"}) {
    EXPECT_THAT(names, ::testing::Contains(name));
  }
  EXPECT_THAT(names, ::testing::Not(::testing::Contains("conv1.bias")));
}

TEST(Models, have_a_row_each) {
  ASSERT_EQ(models().size(), words_of(Model{}).size());
  for (const auto& [model, name] : words_of(Model{}))
    EXPECT_EQ(model_info(model).model, model) << name;
}

}  // namespace
}  // namespace coxswain::graph
