#pragma once

#include "trainer/graph/graph.h"

namespace coxswain::graph {

// The networks made for digits. Each is given the input of one sample.

// MXNet v1.x, symbol "mlp" of its image-classification example: 128, 64, classes; relu.
Graph mlp(Shape input, std::int64_t classes, float label_smoothing);

// MXNet v1.x, symbol "lenet" of the same example: tanh throughout.
Graph lenet(Shape input, std::int64_t classes, float label_smoothing);

// github.com/apache/singa/examples/cnn/model/cnn.py.
Graph singa_cnn(Shape input, std::int64_t classes, float label_smoothing);

// github.com/keras-team/keras/examples/mnist_cnn.py (2.x), "CNN 32-64" with dropout.
Graph keras_cnn(Shape input, std::int64_t classes, float label_smoothing);

}  // namespace coxswain::graph
