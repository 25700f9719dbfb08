#include "trainer/graph/models/small_models.h"

namespace coxswain::graph {

Graph mlp(Shape input, std::int64_t classes, float label_smoothing) {
  constexpr WeightInit kInit = WeightInit::kHeNormalIn;
  Builder b(input);
  int x = b.flatten(b.input());
  x = b.relu(b.dense(x, "fc1", 128, true, kInit));
  x = b.relu(b.dense(x, "fc2", 64, true, kInit));
  return b.finish(b.dense(x, "fc3", classes, true, kInit), label_smoothing);
}

Graph lenet(Shape input, std::int64_t classes, float label_smoothing) {
  constexpr WeightInit kInit = WeightInit::kHeNormalIn;
  Builder b(input);
  int x = b.tanh(b.conv(b.input(), "conv1", 20, 5, 1, 0, true, kInit));
  x = b.max_pool(x, 2, 2);
  x = b.tanh(b.conv(x, "conv2", 50, 5, 1, 0, true, kInit));
  x = b.flatten(b.max_pool(x, 2, 2));
  x = b.tanh(b.dense(x, "fc1", 500, true, kInit));
  return b.finish(b.dense(x, "fc2", classes, true, kInit), label_smoothing);
}

Graph singa_cnn(Shape input, std::int64_t classes, float label_smoothing) {
  Builder b(input);
  int x = b.relu(b.conv(b.input(), "conv1", 20, 5, 1, 0, true, WeightInit::kSingaConv));
  x = b.max_pool(x, 2, 2);
  x = b.relu(b.conv(x, "conv2", 50, 5, 1, 0, true, WeightInit::kSingaConv));
  x = b.flatten(b.max_pool(x, 2, 2));
  x = b.relu(b.dense(x, "linear1", 500, true, WeightInit::kSingaDense));
  return b.finish(b.dense(x, "linear2", classes, true, WeightInit::kSingaDense), label_smoothing);
}

Graph keras_cnn(Shape input, std::int64_t classes, float label_smoothing) {
  constexpr WeightInit kInit = WeightInit::kXavierUniform;
  Builder b(input);
  int x = b.relu(b.conv(b.input(), "conv2d", 32, 3, 1, 0, true, kInit));
  x = b.relu(b.conv(x, "conv2d_1", 64, 3, 1, 0, true, kInit));
  x = b.dropout(b.max_pool(x, 2, 2), "dropout", 0.25F);
  x = b.relu(b.dense(b.flatten(x), "dense", 128, true, kInit));
  x = b.dropout(x, "dropout_1", 0.5F);
  return b.finish(b.dense(x, "dense_1", classes, true, kInit), label_smoothing);
}

}  // namespace coxswain::graph
