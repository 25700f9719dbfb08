#include "trainer/graph/models/models.h"

#include <algorithm>
#include <cassert>
#include <string>

#include "trainer/graph/models/residual_models.h"
#include "trainer/graph/models/small_models.h"

namespace coxswain::graph {

namespace {

template <int depth>
Graph cifar(Shape input, std::int64_t classes, float label_smoothing) {
  return cifar_resnet(depth, input, classes, label_smoothing);
}

template <int depth>
Graph torchvision(Shape input, std::int64_t classes, float label_smoothing) {
  return torchvision_resnet(depth, input, classes, label_smoothing);
}

std::vector<ModelInfo> make_models() {
  const Shape digits{1, 1, 28, 28};
  const Shape small{1, 3, 28, 28};
  const Shape large{1, 3, 224, 224};
  const std::string mxnet = "MXNet v1.x example/image-classification/symbols/";
  const std::string torch = "torchvision, v1.5";
  return {
      {Model::kMlp, digits, 10, mxnet + "mlp.py", mlp},
      {Model::kLenet, digits, 10, mxnet + "lenet.py", lenet},
      {Model::kSingaCnn, digits, 10, "SINGA examples/cnn/model/cnn.py", singa_cnn},
      {Model::kKerasCnn, digits, 10, "Keras examples/mnist_cnn.py", keras_cnn},
      {Model::kD2lResnet18,
       {1, 3, 32, 32},
       10,
       "Dive into Deep Learning, ResNet-18",
       d2l_resnet18},
      {Model::kCifarResnet8, small, 10, mxnet + "resnet.py", cifar<8>},
      {Model::kCifarResnet20, small, 10, mxnet + "resnet.py", cifar<20>},
      {Model::kCifarResnet32, small, 10, mxnet + "resnet.py", cifar<32>},
      {Model::kCifarResnet44, small, 10, mxnet + "resnet.py", cifar<44>},
      {Model::kCifarResnet50, small, 10, mxnet + "resnet.py", cifar<50>},
      {Model::kCifarResnet56, small, 10, mxnet + "resnet.py", cifar<56>},
      {Model::kCifarResnet110, small, 10, mxnet + "resnet.py", cifar<110>},
      {Model::kCifarResnet164, small, 10, mxnet + "resnet.py", cifar<164>},
      {Model::kResnet18, large, 1000, torch, torchvision<18>},
      {Model::kResnet34, large, 1000, torch, torchvision<34>},
      {Model::kResnet50, large, 1000, torch, torchvision<50>},
  };
}

}  // namespace

const std::vector<ModelInfo>& models() {
  static const std::vector<ModelInfo> table = make_models();
  return table;
}

const ModelInfo& model_info(Model model) {
  const auto found = std::ranges::find(models(), model, &ModelInfo::model);
  assert(found != models().end());
  return *found;
}

Graph build_model(Model model, Shape input, std::int64_t classes, float label_smoothing) {
  return model_info(model).build(input, classes, label_smoothing);
}

}  // namespace coxswain::graph
