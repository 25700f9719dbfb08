#include "trainer/backend/cuda/recording.h"

namespace coxswain::backend::cuda {

namespace {

using graph::Node;
using graph::Step;
using graph::StepKind;

constexpr auto kDouble = static_cast<std::int64_t>(sizeof(double));

Norm norm_of(const Node& node) {
  return {.rows = node.shape.n * node.shape.h * node.shape.w,
          .channels = node.shape.c,
          .epsilon = node.epsilon,
          .activation = node.activation};
}

void record_forward(Recording& r, const Step& step, const StepBuffers& b) {
  const Node& node = r.node(step.node);
  const Norm norm = norm_of(node);
  const int moments = r.tape.new_buffer(2 * norm.channels * kDouble);
  r.moments[static_cast<std::size_t>(step.node)] = moments;
  const int x = b.inputs[0];
  if (r.program.training) {
    const int partial = r.tape.new_buffer(partial_sums(norm.rows, norm.channels) * kDouble);
    float* mean = gradients_of(r, node, "running_mean");
    float* variance = gradients_of(r, node, "running_var");
    r.tape.add({x, partial, moments}, [=, &queue = r.queue](const Addresses& at) {
      norm_moments(queue, norm, at.at(x), at.at<double>(partial), at.at<double>(moments), mean,
                   variance);
    });
  } else {
    const float* mean = weights_of(r, node, "running_mean");
    const float* variance = weights_of(r, node, "running_var");
    r.tape.add({moments}, [=, &queue = r.queue](const Addresses& at) {
      norm_running_moments(queue, norm, mean, variance, at.at<double>(moments));
    });
  }
  const float* gamma = weights_of(r, node, "weight");
  const float* beta = weights_of(r, node, "bias");
  r.tape.add({x, moments, b.out}, [=, &queue = r.queue](const Addresses& at) {
    norm_forward(queue, norm, at.at(x), at.at<double>(moments), gamma, beta, at.at(b.out));
  });
}

void record_backward(Recording& r, const Step& step, const StepBuffers& b) {
  const Node& node = r.node(step.node);
  const Norm norm = norm_of(node);
  const int moments = r.moments[static_cast<std::size_t>(step.node)];
  const int partial = r.tape.new_buffer(partial_sums(norm.rows, norm.channels) * kDouble);
  const int sums = r.tape.new_buffer(2 * norm.channels * kDouble);
  const float* gamma = weights_of(r, node, "weight");
  float* d_gamma = gradients_of(r, node, "weight");
  float* d_beta = gradients_of(r, node, "bias");
  const int x = b.inputs[0];
  r.tape.add({x, b.y, b.d_y, moments, partial, sums, b.out}, [=, &queue =
                                                                     r.queue](const Addresses& at) {
    norm_backward(queue, norm, at.at(x), at.at(b.y), at.at(b.d_y), at.at<double>(moments), gamma,
                  at.at<double>(partial), at.at<double>(sums), d_gamma, d_beta, at.at(b.out));
  });
}

}  // namespace

void record_norm(Recording& r, const Step& step, const StepBuffers& b) {
  if (step.kind == StepKind::kForward) return record_forward(r, step, b);
  record_backward(r, step, b);
}

}  // namespace coxswain::backend::cuda
