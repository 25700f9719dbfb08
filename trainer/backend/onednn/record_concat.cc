#include <algorithm>
#include <utility>

#include "trainer/backend/onednn/operations.h"

namespace coxswain::backend::onednn {

namespace {

// The order of a whole of which each part is a range of channels: `like`'s, unless a part would
// begin or end within a block of channels.
Desc order_with_parts(const Plan& plan, const Node& node, const Desc& like) {
  const Dims whole = to_dims(node.shape);
  const Type type = type_of(like);
  if (is_lanes_order(like)) return plain(whole, type);
  for (const auto& [order, block] : {std::pair{Tag::acdb, 1}, std::pair{Tag::aBcd16b, 16},
                                     std::pair{Tag::aBcd8b, 8}, std::pair{Tag::aBcd4b, 4}}) {
    if (Desc(dims_of(like), type, order) != like) continue;
    const bool fits = std::ranges::all_of(
        node.inputs, [&](int input) { return plan.node(input).shape.c % block == 0; });
    if (fits) return {whole, type, order};
  }
  return plain(whole, type);
}

// The channels of one input.
Tensor part_of(Plan& plan, const Node& node, const Tensor& whole, int input) {
  const Dims dims = to_dims(plan.node(node.inputs[static_cast<std::size_t>(input)]).shape);
  const std::int64_t first = graph::first_channel(plan.program.graph, node, input);
  return plan.tape.view(whole.desc.submemory_desc(dims, {0, first, 0, 0}), whole.buffer);
}

void forward(Plan& plan, const Step& step) {
  const Node& node = plan.node(step.node);
  const Desc like = with_type(plan.edge(step.reads[0]).desc, to_type(node.type));
  const Tensor output = plan.tape.new_tensor(order_with_parts(plan, node, like));
  for (std::size_t i = 0; i < step.reads.size(); ++i)
    copy(plan, plan.edge(step.reads[i]), part_of(plan, node, output, static_cast<int>(i)));
  deliver(plan, step.writes[0], output);
}

// In the order of the output, for what read that output most often wants it back.
void backward(Plan& plan, const Step& step) {
  const Node& node = plan.node(step.node);
  const graph::Edge& edge = plan.program.edges[static_cast<std::size_t>(step.writes[0])];
  const Desc whole = with_type(plan.edge(step.node).desc, to_type(edge.type));
  const Tensor from = converted(plan, plan.edge(step.reads[0]), whole);
  const Desc like = with_type(plan.edge(node.inputs[static_cast<std::size_t>(step.input)]).desc,
                              to_type(edge.type));
  const Tensor gradient = plan.tape.new_tensor(like);
  copy(plan, part_of(plan, node, from, step.input), gradient);
  deliver(plan, step.writes[0], gradient);
}

}  // namespace

const Recorder kConcat{.forward = forward, .backward_data = backward};

}  // namespace coxswain::backend::onednn
