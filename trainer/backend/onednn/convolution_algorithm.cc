#include "trainer/backend/onednn/convolution_algorithm.h"

#include <algorithm>
#include <string>
#include <vector>

#include "trainer/backend/onednn/record_lanes.h"

namespace coxswain::backend::onednn {

namespace {

using graph::Node;
using graph::Program;

bool winograd_fits(const Program& program, int index) {
  const Node& node = node_of(program, index);
  return compute_type(program) == Type::f32 && node.kernel == 3 && node.stride == 1 &&
         node.groups == 1 && node_of(program, node.inputs[0]).shape.c >= 16;
}

// Where there is AMX, products of bf16 vectors take as long as float32's: singa-cnn in lanes was
// slower in bf16 than in float32 on a Sapphire Rapids. oneDNN computes with tiles there, which one
// input channel does not fill.
bool lanes_are_faster(const Program& program, int index) {
  const tensor::Shape& input = node_of(program, node_of(program, index).inputs[0]).shape;
  return compute_type(program) == Type::f32 || input.c < 16 ||
         !has_isa(dnnl::cpu_isa::avx512_core_amx);
}

// The fastest first.
std::vector<ConvAlgorithm> choices_of(const Program& program, int index, bool winograd) {
  std::vector<ConvAlgorithm> choices{ConvAlgorithm::kDirect};
  if (winograd && winograd_fits(program, index))
    choices.insert(choices.begin(), ConvAlgorithm::kWinograd);
  if (lanes_convolution(program, index)) {
    choices.insert(lanes_are_faster(program, index) ? choices.begin() : choices.end(),
                   ConvAlgorithm::kLanes);
  }
  return choices;
}

}  // namespace

std::optional<LanesConvolution> lanes_convolution(const Program& program, int index) {
  const Node& node = node_of(program, index);
  const tensor::Shape& input = node_of(program, node.inputs[0]).shape;
  const Type type = compute_type(program);
  for (const Node& reader : program.graph.nodes) {
    if (std::ranges::count(reader.inputs, index) > 0 && !pools_in_lanes(reader)) {
      return std::nullopt;
    }
  }
  const bool shape = node.stride == 1 && node.pad == 0 && node.pad_extra == 0 &&
                     (node.kernel == 3 || node.kernel == 5) && node.groups == 1 &&
                     node.channels % 16 != 0 && to_type(node.type) == type;
  const tensor::DataType data =
      type == Type::f32 ? tensor::DataType::kFloat32 : tensor::DataType::kBFloat16;
  // Tanh is a pass of its own, over values that bf16 would have rounded already.
  const bool rounds_twice = node.activation == graph::Activation::kTanh && type == Type::bf16;
  if (!shape || rounds_twice || !lanes_supported(data)) return std::nullopt;
  return LanesConvolution{.blocks = (input.n + lanes_of(data) - 1) / lanes_of(data),
                          .in_channels = input.c,
                          .in_height = input.h,
                          .in_width = input.w,
                          .channels = node.channels,
                          .kernel = node.kernel};
}

AlgorithmChoices convolution_choices(const Program& program, bool winograd) {
  AlgorithmChoices result;
  for (std::size_t i = 0; i < program.graph.nodes.size(); ++i) {
    const Node& node = program.graph.nodes[i];
    if (node.op != graph::Op::kConv2d) continue;
    const auto choices = choices_of(program, static_cast<int>(i), winograd);
    if (choices.size() < 2) continue;
    for (const ConvAlgorithm choice : choices) result[node.name].emplace_back(word(choice));
  }
  return result;
}

ConvAlgorithm algorithm_of(const LayerSetting& setting) {
  const Program& program = *setting.program;
  const auto choices = choices_of(program, setting.node, setting.options->winograd);
  const auto named = setting.options->algorithms.find(node_of(program, setting.node).name);
  if (named == setting.options->algorithms.end()) return choices.front();
  const auto found = std::ranges::find_if(
      choices, [&](ConvAlgorithm choice) { return word(choice) == named->second; });
  return found == choices.end() ? choices.front() : *found;
}

}  // namespace coxswain::backend::onednn
