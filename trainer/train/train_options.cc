#include "trainer/train/train_options.h"

#include <algorithm>

#include "trainer/contract/error.h"
#include "trainer/graph/models/models.h"
#include "trainer/onnx/network.h"

namespace coxswain::train {

namespace {

graph::Graph build_network(const TrainOptions& options, tensor::Shape input, std::int64_t classes,
                           float label_smoothing) {
  if (options.onnx) return onnx::translate(*options.onnx, input, classes, label_smoothing).graph;
  if (options.layers.empty())
    return graph::build_model(options.model, input, classes, label_smoothing);
  return graph::build_layers(options.layers, input, classes, label_smoothing);
}

}  // namespace

graph::Graph build_graph(const TrainOptions& options, tensor::Shape input, std::int64_t classes,
                         float label_smoothing) {
  graph::Graph graph = build_network(options, input, classes, label_smoothing);
  if (!options.joins_norms) return graph;
  bool found = false;
  for (graph::Node& node : graph.nodes)
    found = (node.joined = node.op == graph::Op::kBatchNorm) || found;
  if (!found)
    throw Error(ExitCode::kBadInput,
                "[train] batchNorm: sync, and the network has no BatchNorm: leave it out");
  return graph;
}

const data::Preprocessing& evaluation_steps(const TrainOptions& options) {
  return options.evaluation_preprocessing ? *options.evaluation_preprocessing
                                          : options.preprocessing;
}

std::int64_t evaluation_batch(const TrainOptions& options, const data::Dataset& test) {
  return std::min(options.evaluation_batch > 0 ? options.evaluation_batch : options.batch_size,
                  std::max<std::int64_t>(1, test.size()));
}

}  // namespace coxswain::train
