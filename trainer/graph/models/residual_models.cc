#include "trainer/graph/models/residual_models.h"

#include <fmt/format.h>

#include <array>

namespace coxswain::graph {

namespace {

constexpr float kMxnetEpsilon = 2e-5F;

// One unit of D2L's ResNet: conv-bn-relu-conv-bn, plus the input, relu.
int d2l_unit(Builder& b, int x, const std::string& name, std::int64_t channels, bool downsample) {
  constexpr WeightInit kInit = WeightInit::kXavierUniform;
  const int stride = downsample ? 2 : 1;
  int y = b.conv(x, name + ".conv1", channels, 3, stride, 1, true, kInit);
  y = b.relu(b.batch_norm(y, name + ".bn1"));
  y = b.conv(y, name + ".conv2", channels, 3, 1, 1, true, kInit);
  y = b.batch_norm(y, name + ".bn2");
  const int shortcut =
      downsample ? b.conv(x, name + ".conv3", channels, 1, stride, 0, true, kInit) : x;
  return b.relu(b.add(y, shortcut));
}

struct MxnetUnit {
  std::string name;  // "stage1_unit1"
  std::int64_t channels = 0;
  int stride = 1;
  bool project = false;  // the first unit of every stage, the first stage too
  bool bottleneck = false;
};

int mxnet_norm(Builder& b, int x, const std::string& name) {
  return b.relu(b.batch_norm(x, name, kMxnetEpsilon));
}

// One pre-activation unit. The projection is taken after the first BN-relu.
int mxnet_unit(Builder& b, int x, const MxnetUnit& unit) {
  constexpr WeightInit kInit = WeightInit::kHeNormalIn;
  const auto named = [&](const char* layer) { return fmt::format("{}_{}", unit.name, layer); };
  const int first = mxnet_norm(b, x, named("bn1"));
  int y = first;
  if (unit.bottleneck) {
    y = b.conv(y, named("conv1"), unit.channels / 4, 1, 1, 0, false, kInit);
    y = mxnet_norm(b, y, named("bn2"));
    y = b.conv(y, named("conv2"), unit.channels / 4, 3, unit.stride, 1, false, kInit);
    y = mxnet_norm(b, y, named("bn3"));
    y = b.conv(y, named("conv3"), unit.channels, 1, 1, 0, false, kInit);
  } else {
    y = b.conv(y, named("conv1"), unit.channels, 3, unit.stride, 1, false, kInit);
    y = mxnet_norm(b, y, named("bn2"));
    y = b.conv(y, named("conv2"), unit.channels, 3, 1, 1, false, kInit);
  }
  const int shortcut =
      unit.project ? b.conv(first, named("sc"), unit.channels, 1, unit.stride, 0, false, kInit) : x;
  return b.add(y, shortcut);
}

struct TorchUnit {
  std::string name;         // "layer1.0"
  std::int64_t planes = 0;  // the output has 4 * planes for a bottleneck
  int stride = 1;
  bool downsample = false;
  bool bottleneck = false;
};

int torch_conv(Builder& b, int x, const std::string& name, std::int64_t channels, int kernel,
               int stride) {
  return b.conv(x, name, channels, kernel, stride, kernel / 2, false, WeightInit::kHeNormalOut);
}

// One unit of torchvision's ResNet. v1.5: a bottleneck's stride stands on its 3x3 convolution.
int torch_unit(Builder& b, int x, const TorchUnit& unit) {
  const auto named = [&](const char* layer) { return fmt::format("{}.{}", unit.name, layer); };
  const std::int64_t channels = unit.planes * (unit.bottleneck ? 4 : 1);
  int y = x;
  if (unit.bottleneck) {
    y = b.relu(b.batch_norm(torch_conv(b, y, named("conv1"), unit.planes, 1, 1), named("bn1")));
    y = torch_conv(b, y, named("conv2"), unit.planes, 3, unit.stride);
    y = b.relu(b.batch_norm(y, named("bn2")));
    y = b.batch_norm(torch_conv(b, y, named("conv3"), channels, 1, 1), named("bn3"));
  } else {
    y = torch_conv(b, y, named("conv1"), unit.planes, 3, unit.stride);
    y = b.relu(b.batch_norm(y, named("bn1")));
    y = b.batch_norm(torch_conv(b, y, named("conv2"), channels, 3, 1), named("bn2"));
  }
  int shortcut = x;
  if (unit.downsample) {
    shortcut = torch_conv(b, x, named("downsample.0"), channels, 1, unit.stride);
    shortcut = b.batch_norm(shortcut, named("downsample.1"));
  }
  return b.relu(b.add(y, shortcut));
}

std::array<int, 4> torch_units(int depth) {
  if (depth == 18) return {2, 2, 2, 2};
  return {3, 4, 6, 3};
}

}  // namespace

Graph d2l_resnet18(Shape input, std::int64_t classes, float label_smoothing) {
  constexpr WeightInit kInit = WeightInit::kXavierUniform;
  Builder b(input);
  int x = b.conv(b.input(), "conv", 64, 3, 1, 1, true, kInit);
  x = b.relu(b.batch_norm(x, "bn"));
  for (int stage = 0; stage < 4; ++stage) {
    for (int unit = 0; unit < 2; ++unit) {
      const std::string name = fmt::format("stage{}.unit{}", stage + 1, unit + 1);
      x = d2l_unit(b, x, name, std::int64_t{64} << stage, stage > 0 && unit == 0);
    }
  }
  x = b.global_avg_pool(x);
  return b.finish(b.dense(x, "fc", classes, true, kInit), label_smoothing);
}

Graph cifar_resnet(int depth, Shape input, std::int64_t classes, float label_smoothing) {
  constexpr WeightInit kInit = WeightInit::kHeNormalIn;
  const bool bottleneck = depth >= 164;
  const int units = (depth - 2) / (bottleneck ? 9 : 6);
  Builder b(input);
  int x = b.batch_norm(b.input(), "bn_data", kMxnetEpsilon, /*fixed_gamma=*/true);
  x = b.conv(x, "conv0", 16, 3, 1, 1, false, kInit);
  for (int stage = 0; stage < 3; ++stage) {
    for (int unit = 0; unit < units; ++unit) {
      const bool first = unit == 0;
      x = mxnet_unit(b, x,
                     {.name = fmt::format("stage{}_unit{}", stage + 1, unit + 1),
                      .channels = std::int64_t{bottleneck ? 64 : 16} << stage,
                      .stride = first && stage > 0 ? 2 : 1,
                      .project = first,
                      .bottleneck = bottleneck});
    }
  }
  x = b.flatten(b.global_avg_pool(mxnet_norm(b, x, "bn1")));
  return b.finish(b.dense(x, "fc1", classes, true, kInit), label_smoothing);
}

Graph torchvision_resnet(int depth, Shape input, std::int64_t classes, float label_smoothing) {
  const bool bottleneck = depth >= 50;
  const std::array<int, 4> units = torch_units(depth);
  Builder b(input);
  int x = torch_conv(b, b.input(), "conv1", 64, 7, 2);
  x = b.relu(b.batch_norm(x, "bn1"));
  x = b.max_pool(x, 3, 2, 1);
  for (int stage = 0; stage < 4; ++stage) {
    for (int unit = 0; unit < units[static_cast<std::size_t>(stage)]; ++unit) {
      const bool first = unit == 0;
      x = torch_unit(b, x,
                     {.name = fmt::format("layer{}.{}", stage + 1, unit),
                      .planes = std::int64_t{64} << stage,
                      .stride = first && stage > 0 ? 2 : 1,
                      .downsample = first && (stage > 0 || bottleneck),
                      .bottleneck = bottleneck});
    }
  }
  x = b.flatten(b.global_avg_pool(x));
  return b.finish(b.dense(x, "fc", classes, true, WeightInit::kTorchDense), label_smoothing);
}

}  // namespace coxswain::graph
