#include "trainer/backend/loss.h"
#include "trainer/backend/onednn/operations.h"

namespace coxswain::backend::onednn {

namespace {

Tensor row_major(Plan& plan, int edge) {
  const tensor::Shape& shape = plan.program.edges[static_cast<std::size_t>(edge)].shape;
  return converted(plan, plan.edge(edge), plain(to_dims(shape), Type::f32));
}

std::span<const float> floats(const Addresses& addresses, const Tensor& tensor,
                              const tensor::Shape& shape) {
  return {addresses.at<float>(tensor.buffer), static_cast<std::size_t>(shape.elements())};
}

void forward(Plan& plan, const Step& step) {
  const Node& node = plan.node(step.node);
  const tensor::Shape shape = plan.input_of(node).shape;
  const Tensor logits = row_major(plan, step.reads[0]);
  const float smoothing = node.label_smoothing;
  StepState* state = &plan.state;
  plan.tape.add({logits.buffer}, [=](const Addresses& addresses) {
    state->sums =
        softmax_cross_entropy(shape, smoothing, floats(addresses, logits, shape), state->batch);
  });
}

void backward(Plan& plan, const Step& step) {
  const Node& node = plan.node(step.node);
  const tensor::Shape shape = plan.input_of(node).shape;
  const Tensor logits = row_major(plan, step.reads[0]);
  const Tensor gradient = plan.tape.new_tensor(plain(to_dims(shape), Type::f32));
  const float smoothing = node.label_smoothing;
  const StepState* state = &plan.state;
  plan.tape.add({logits.buffer, gradient.buffer}, [=](const Addresses& addresses) {
    const std::span<float> out{addresses.at<float>(gradient.buffer),
                               static_cast<std::size_t>(shape.elements())};
    softmax_cross_entropy_gradient(shape, smoothing, floats(addresses, logits, shape), state->batch,
                                   out);
  });
  deliver(plan, step.writes[0], gradient);
}

}  // namespace

const Recorder kSoftmaxCrossEntropy{.forward = forward, .backward_data = backward};

}  // namespace coxswain::backend::onednn
