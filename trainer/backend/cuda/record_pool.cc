#include <algorithm>

#include "trainer/backend/cuda/recording.h"

namespace coxswain::backend::cuda {

namespace {

using graph::Node;
using graph::Op;
using graph::Step;
using graph::StepKind;

// Over the whole image it is one window, of which what lies outside is not counted.
Window window_of(const Recording& r, const Node& node) {
  const Shape& in = r.input_of(node).shape;
  if (node.op == Op::kGlobalAvgPool)
    return {in, node.shape, static_cast<int>(std::max(in.h, in.w)), 1, 0, false};
  return {in, node.shape, node.kernel, node.stride, node.pad, node.counts_padding};
}

}  // namespace

void record_pool(Recording& r, const Step& step, const StepBuffers& b) {
  const Node& node = r.node(step.node);
  const Window window = window_of(r, node);
  const bool max = node.op == Op::kMaxPool;
  const int x = b.inputs.empty() ? -1 : b.inputs[0];
  if (step.kind == StepKind::kForward) {
    r.tape.add({x, b.out}, [=, &queue = r.queue](const Addresses& at) {
      (max ? max_pool : average_pool)(queue, window, at.at(x), at.at(b.out));
    });
    return;
  }
  r.tape.add({x, b.d_y, b.out}, [=, &queue = r.queue](const Addresses& at) {
    if (max) {
      max_pool_backward(queue, window, at.at(x), at.at(b.d_y), at.at(b.out));
    } else {
      average_pool_backward(queue, window, at.at(b.d_y), at.at(b.out));
    }
  });
}

}  // namespace coxswain::backend::cuda
