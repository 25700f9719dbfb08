#include "trainer/backend/cuda/recording.h"
#include "trainer/tensor/device_span.h"

namespace coxswain::backend::cuda {

namespace {

using graph::Node;
using graph::Step;
using graph::StepKind;

constexpr auto kDouble = static_cast<std::int64_t>(sizeof(double));

Norm norm_of(const Node& node) {
  return {.images = node.shape.n,
          .rows = node.shape.n * node.shape.h * node.shape.w,
          .channels = node.shape.c,
          .epsilon = node.epsilon,
          .activation = node.activation};
}

// What every rank has, in rank order.
struct Gathered {
  const float* values = nullptr;
  int ranks = 0;
};

Gathered gather(AllGather* ranks, float* own, std::int64_t count) {
  const tensor::Slice mine(tensor::Place::kDevice, own, count);
  const tensor::Slice all = ranks == nullptr ? mine : ranks->gather(mine);
  return {tensor::device_span(all).data(), static_cast<int>(all.size() / count)};
}

void record_batch_moments(Recording& r, const Node& node, int x, int moments) {
  const Norm norm = norm_of(node);
  const int partial = r.tape.new_buffer(partial_sums(norm.rows, norm.channels) * kDouble);
  float* mean = gradients_of(r, node, "running_mean");
  float* variance = gradients_of(r, node, "running_var");
  r.tape.add({x, partial, moments}, [=, &queue = r.queue](const Addresses& at) {
    norm_moments(queue, norm, at.at(x), at.at<double>(partial), at.at<double>(moments), mean,
                 variance);
  });
  if (!node.joined) return;
  const std::int64_t count = norm_values(norm.channels);
  const int own = r.tape.new_array(count, DataType::kFloat32);
  r.tape.add({moments, own}, [=, &queue = r.queue, &ranks = r.ranks](const Addresses& at) {
    norm_own_moments(queue, norm, at.at<double>(moments), at.at<float>(own));
    const Gathered all = gather(ranks, at.at<float>(own), count);
    norm_join_moments(queue, norm, all.values, all.ranks, at.at<double>(moments), mean, variance);
  });
}

void record_forward(Recording& r, const Step& step, const StepBuffers& b) {
  const Node& node = r.node(step.node);
  const Norm norm = norm_of(node);
  const int moments = r.tape.new_buffer(norm_values(norm.channels) * kDouble);
  r.moments[static_cast<std::size_t>(step.node)] = moments;
  const int x = b.inputs[0];
  if (r.program.training) {
    record_batch_moments(r, node, x, moments);
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

void record_joined_sums(Recording& r, const Norm& norm, int sums) {
  const std::int64_t count = 2 * norm.channels;
  const int own = r.tape.new_array(count, DataType::kFloat32);
  r.tape.add({sums, own}, [=, &queue = r.queue, &ranks = r.ranks](const Addresses& at) {
    norm_own_sums(queue, norm, at.at<double>(sums), at.at<float>(own));
    const Gathered all = gather(ranks, at.at<float>(own), count);
    norm_join_sums(queue, norm, all.values, all.ranks, at.at<double>(sums));
  });
}

void record_backward(Recording& r, const Step& step, const StepBuffers& b) {
  const Node& node = r.node(step.node);
  const Norm norm = norm_of(node);
  const int moments = r.moments[static_cast<std::size_t>(step.node)];
  const int partial = r.tape.new_buffer(partial_sums(norm.rows, norm.channels) * kDouble);
  const int sums = r.tape.new_buffer(2 * norm.channels * kDouble);
  float* d_gamma = gradients_of(r, node, "weight");
  float* d_beta = gradients_of(r, node, "bias");
  const int x = b.inputs[0];
  r.tape.add({x, b.y, b.d_y, moments, partial, sums}, [=, &queue = r.queue](const Addresses& at) {
    norm_gradients(queue, norm, at.at(x), at.at(b.y), at.at(b.d_y), at.at<double>(moments),
                   at.at<double>(partial), at.at<double>(sums), d_gamma, d_beta);
  });
  if (b.out < 0) return;
  if (node.joined) record_joined_sums(r, norm, sums);
  const float* gamma = weights_of(r, node, "weight");
  r.tape.add({x, b.y, b.d_y, moments, sums, b.out}, [=, &queue = r.queue](const Addresses& at) {
    norm_backward(queue, norm, at.at(x), at.at(b.y), at.at(b.d_y), at.at<double>(moments),
                  at.at<double>(sums), gamma, at.at(b.out));
  });
}

}  // namespace

void record_norm(Recording& r, const Step& step, const StepBuffers& b) {
  if (step.kind == StepKind::kForward) return record_forward(r, step, b);
  record_backward(r, step, b);
}

}  // namespace coxswain::backend::cuda
