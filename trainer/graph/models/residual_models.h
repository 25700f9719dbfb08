#pragma once

#include "trainer/graph/graph.h"

namespace coxswain::graph {

// "Dive into Deep Learning", ResNet-18 with a 3x3 stem: post-activation, convolutions with biases,
// a shortcut of 1x1 stride 2 without BatchNorm, no max-pool.
Graph d2l_resnet18(Shape input, std::int64_t classes, float label_smoothing);

// MXNet v1.x, symbol "resnet" of its image-classification example, three stages for small images:
// pre-activation (He et al. 2016). `depth` is 6n+2 below 164 (basic units) or 9n+2 from 164 on
// (bottlenecks).
Graph cifar_resnet(int depth, Shape input, std::int64_t classes, float label_smoothing);

// torchvision's resnet18, resnet34 and resnet50 (v1.5: stride on the 3x3), with its tensor names.
Graph torchvision_resnet(int depth, Shape input, std::int64_t classes, float label_smoothing);

}  // namespace coxswain::graph
