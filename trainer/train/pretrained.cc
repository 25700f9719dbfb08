#include "trainer/train/pretrained.h"

#include <fmt/format.h>

#include "trainer/checkpoint/weights_file.h"
#include "trainer/graph/head.h"
#include "trainer/onnx/file.h"
#include "trainer/onnx/network.h"
#include "trainer/train/averaged_weights.h"

namespace coxswain::train {

namespace {

checkpoint::ForeignWeights read_weights(const std::filesystem::path& file) {
  if (!onnx::is_onnx(file)) return checkpoint::read_weights(file);
  return {onnx::weights_of(onnx::read_model(file, onnx::Values::kWithWeights)), {}};
}

}  // namespace

void begin_with(const std::filesystem::path& pretrained, const graph::Graph& graph,
                checkpoint::Contents& contents, std::vector<std::string>& notes) {
  const std::string where = pretrained.string();
  const auto last = graph::head_of(graph).value_or(graph.loss().inputs.front());
  const std::string& head = graph.nodes[static_cast<std::size_t>(last)].name;
  const checkpoint::Placed placed =
      checkpoint::place_weights(read_weights(pretrained), head, contents.model, where);
  begin_averages(contents);
  notes.push_back(fmt::format("begins with the weights of {}", where));
  if (placed.new_head) notes.push_back(fmt::format("{} begins anew", head));
  if (!placed.unused.empty())
    notes.push_back(fmt::format("not used: {}", checkpoint::listed(placed.unused)));
}

}  // namespace coxswain::train
