#include "trainer/graph/models/models.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "trainer/contract/error.h"
#include "trainer/graph/models/residual_models.h"
#include "trainer/graph/models/small_models.h"

namespace coxswain::graph {

namespace {

constexpr std::string_view kCifarPrefix = "cifar-resnet";
constexpr std::string_view kTorchPrefix = "resnet";

std::vector<ModelInfo> make_models() {
  const Shape digits{1, 1, 28, 28};
  const std::string mxnet = "MXNet v1.x example/image-classification/symbols/";
  std::vector<ModelInfo> result{
      {"mlp", digits, 10, mxnet + "mlp.py"},
      {"lenet", digits, 10, mxnet + "lenet.py"},
      {"singa-cnn", digits, 10, "SINGA examples/cnn/model/cnn.py"},
      {"keras-cnn", digits, 10, "Keras examples/mnist_cnn.py"},
      {"d2l-resnet18", {1, 3, 32, 32}, 10, "Dive into Deep Learning, ResNet-18"},
  };
  for (const int depth : {8, 20, 32, 44, 50, 56, 110, 164}) {
    result.push_back(
        {fmt::format("{}{}", kCifarPrefix, depth), {1, 3, 28, 28}, 10, mxnet + "resnet.py"});
  }
  for (const int depth : {18, 34, 50}) {
    result.push_back(
        {fmt::format("{}{}", kTorchPrefix, depth), {1, 3, 224, 224}, 1000, "torchvision, v1.5"});
  }
  return result;
}

// Levenshtein distance: the fewest insertions, deletions and replacements from a to b.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

int depth_after(std::string_view prefix, std::string_view name) {
  return std::stoi(std::string(name.substr(prefix.size())));
}

}  // namespace

const std::vector<ModelInfo>& models() {
  static const std::vector<ModelInfo> table = make_models();
  return table;
}

const ModelInfo& model_info(std::string_view name) {
  const std::string_view known = name.substr(0, 64);  // bounds the work for the nearest name
  const auto found = std::ranges::find(models(), name, &ModelInfo::name);
  if (found != models().end()) return *found;
  const auto nearest = std::ranges::min_element(
      models(), {}, [&](const ModelInfo& model) { return edit_distance(known, model.name); });
  throw Error(ExitCode::kBadInput, fmt::format("[model] no model is named '{}'; did you mean '{}'?",
                                               known, nearest->name));
}

Graph build_model(std::string_view name, Shape input, std::int64_t classes, float label_smoothing) {
  const std::string_view model = model_info(name).name;
  if (model == "mlp") return mlp(input, classes, label_smoothing);
  if (model == "lenet") return lenet(input, classes, label_smoothing);
  if (model == "singa-cnn") return singa_cnn(input, classes, label_smoothing);
  if (model == "keras-cnn") return keras_cnn(input, classes, label_smoothing);
  if (model == "d2l-resnet18") return d2l_resnet18(input, classes, label_smoothing);
  if (model.starts_with(kCifarPrefix)) {
    return cifar_resnet(depth_after(kCifarPrefix, model), input, classes, label_smoothing);
  }
  return torchvision_resnet(depth_after(kTorchPrefix, model), input, classes, label_smoothing);
}

}  // namespace coxswain::graph
