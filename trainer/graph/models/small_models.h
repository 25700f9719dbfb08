#pragma once

#include "trainer/graph/graph.h"

namespace coxswain::graph {

// The networks made for digits. Each is given the input of one sample.

// MXNet v1.x example/image-classification/symbols/mlp.py: 128, 64, classes; relu.
Graph mlp(Shape input, std::int64_t classes, float label_smoothing);

// MXNet v1.x example/image-classification/symbols/lenet.py: tanh throughout.
Graph lenet(Shape input, std::int64_t classes, float label_smoothing);

// SINGA examples/cnn/model/cnn.py.
Graph singa_cnn(Shape input, std::int64_t classes, float label_smoothing);

// Keras examples/mnist_cnn.py, "CNN 32-64" with dropout.
Graph keras_cnn(Shape input, std::int64_t classes, float label_smoothing);

}  // namespace coxswain::graph
