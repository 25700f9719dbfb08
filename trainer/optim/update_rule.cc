#include "trainer/optim/update_rule.h"

#include <cmath>
#include <span>

namespace coxswain::optim {

namespace {

using tensor::SegmentKind;

enum class Loop { kPlain, kSgd, kSgdMxnet, kNesterov, kNesterovMxnet, kAdam };

// What the loops need of rule and step, computed once.
struct Coefficients {
  float lr;
  float momentum;
  float decay;
  float beta2;
  float epsilon;
  float adam_step;       // lr / (1 - beta1^t)
  float adam_root_bias;  // sqrt(1 - beta2^t)
};

Loop loop_of(const UpdateRule& rule, int slots) {
  if (rule.kind == OptimizerKind::kAdam) return Loop::kAdam;
  if (slots == 0) return Loop::kPlain;
  const bool mxnet = rule.form == MomentumForm::kMxnet;
  if (rule.kind == OptimizerKind::kSgd) return mxnet ? Loop::kSgdMxnet : Loop::kSgd;
  return mxnet ? Loop::kNesterovMxnet : Loop::kNesterov;
}

Coefficients coefficients_of(const UpdateRule& rule, const UpdateStep& step) {
  const auto count = static_cast<double>(step.update_count);
  const double bias1 = 1 - std::pow(static_cast<double>(step.momentum), count);
  const double bias2 = 1 - std::pow(static_cast<double>(rule.beta2), count);
  return {.lr = step.lr,
          .momentum = step.momentum,
          .decay = rule.weight_decay,
          .beta2 = rule.beta2,
          .epsilon = rule.epsilon,
          .adam_step = static_cast<float>(step.lr / bias1),
          .adam_root_bias = static_cast<float>(std::sqrt(bias2))};
}

// Each rule is a loop of its own so that the compiler vectorises it; `slot1` is used by Adam alone.
[[gnu::always_inline]] inline void run_loop(Loop loop, const Coefficients& c, std::int64_t count,
                                            float* __restrict w, const float* __restrict g,
                                            float* __restrict slot0, float* __restrict slot1) {
  const float lr = c.lr;
  const float mu = c.momentum;
  const float decay = c.decay;
  switch (loop) {
    case Loop::kPlain:
      for (std::int64_t i = 0; i < count; ++i) w[i] -= lr * (g[i] + decay * w[i]);
      return;
    case Loop::kSgd:
      for (std::int64_t i = 0; i < count; ++i) {
        slot0[i] = mu * slot0[i] + (g[i] + decay * w[i]);
        w[i] -= lr * slot0[i];
      }
      return;
    case Loop::kSgdMxnet:
      for (std::int64_t i = 0; i < count; ++i) {
        slot0[i] = mu * slot0[i] - lr * (g[i] + decay * w[i]);
        w[i] += slot0[i];
      }
      return;
    case Loop::kNesterov:
      for (std::int64_t i = 0; i < count; ++i) {
        const float gradient = g[i] + decay * w[i];
        slot0[i] = mu * slot0[i] + gradient;
        w[i] -= lr * (gradient + mu * slot0[i]);
      }
      return;
    case Loop::kNesterovMxnet:
      for (std::int64_t i = 0; i < count; ++i) {
        const float move = lr * (g[i] + decay * w[i]);
        slot0[i] = mu * slot0[i] - move;
        w[i] += mu * slot0[i] - move;
      }
      return;
    case Loop::kAdam:
      for (std::int64_t i = 0; i < count; ++i) {
        const float gradient = g[i] + decay * w[i];
        slot0[i] = mu * slot0[i] + (1 - mu) * gradient;
        slot1[i] = c.beta2 * slot1[i] + (1 - c.beta2) * (gradient * gradient);
        w[i] -= c.adam_step * slot0[i] / (std::sqrt(slot1[i]) / c.adam_root_bias + c.epsilon);
      }
      return;
  }
}

using Runner = void (*)(Loop loop, const Coefficients& c, std::int64_t count, float* w,
                        const float* g, float* slot0, float* slot1);

[[gnu::target("arch=x86-64-v4")]] void run_avx512(Loop loop, const Coefficients& c,
                                                  std::int64_t count, float* w, const float* g,
                                                  float* slot0, float* slot1) {
  run_loop(loop, c, count, w, g, slot0, slot1);
}

[[gnu::target("arch=x86-64-v3")]] void run_avx2(Loop loop, const Coefficients& c,
                                                std::int64_t count, float* w, const float* g,
                                                float* slot0, float* slot1) {
  run_loop(loop, c, count, w, g, slot0, slot1);
}

void run_baseline(Loop loop, const Coefficients& c, std::int64_t count, float* w, const float* g,
                  float* slot0, float* slot1) {
  run_loop(loop, c, count, w, g, slot0, slot1);
}

// By hand, because programs with target_clones crash under ThreadSanitizer before main.
Runner widest_runner() {
  if (__builtin_cpu_supports("x86-64-v4")) return run_avx512;
  if (__builtin_cpu_supports("x86-64-v3")) return run_avx2;
  return run_baseline;
}

void average(float momentum, float parts, std::span<float> running, std::span<const float> sums) {
  for (std::size_t i = 0; i < running.size(); ++i) {
    running[i] = (1 - momentum) * running[i] + momentum * (sums[i] / parts);
  }
}

}  // namespace

int num_slots(const UpdateRule& rule, bool has_momentum) {
  if (rule.kind == OptimizerKind::kAdam) return 2;
  return has_momentum ? 1 : 0;
}

bool decays(DecayScope scope, SegmentKind kind) {
  if (!tensor::is_trainable(kind)) return false;
  if (scope == DecayScope::kAll || kind == SegmentKind::kWeight) return true;
  return scope == DecayScope::kWeightsAndGamma && kind == SegmentKind::kGamma;
}

void update(const UpdateRule& rule, const UpdateStep& step, tensor::ParameterBuffer& parameters,
            int first, int last) {
  const int slots = parameters.num_slots();
  const Loop loop = loop_of(rule, slots);
  const Runner run = widest_runner();
  Coefficients coefficients = coefficients_of(rule, step);
  for (int i = first; i < last; ++i) {
    const tensor::Segment& segment = parameters.layout().segments[static_cast<std::size_t>(i)];
    if (segment.kind == SegmentKind::kControl) continue;
    const std::span<float> weights = parameters.weights(segment);
    const std::span<float> gradients = parameters.gradients(segment);
    if (segment.kind == SegmentKind::kStatistic) {
      average(rule.statistic_momentum, step.statistic_parts, weights, gradients);
      continue;
    }
    coefficients.decay = decays(rule.decay_scope, segment.kind) ? rule.weight_decay : 0;
    run(loop, coefficients, segment.stored, weights.data(), gradients.data(),
        slots > 0 ? parameters.slot(0, segment).data() : nullptr,
        slots > 1 ? parameters.slot(1, segment).data() : nullptr);
  }
}

}  // namespace coxswain::optim
