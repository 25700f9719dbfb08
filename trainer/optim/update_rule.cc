#include "trainer/optim/update_rule.h"

#include <cassert>
#include <cmath>
#include <type_traits>

namespace coxswain::optim {

namespace {

using tensor::SegmentKind;

// The formulas: what a step does to one weight and its slots, given its gradient, decay included.

struct PlainSgd {
  PlainSgd(const UpdateRule&, const UpdateStep& step) : lr(step.lr) {}
  [[gnu::always_inline]] void operator()(float gradient, float& w) const { w -= lr * gradient; }
  float lr;
};

struct Sgd {
  Sgd(const UpdateRule&, const UpdateStep& step) : lr(step.lr), mu(step.momentum) {}
  [[gnu::always_inline]] void operator()(float gradient, float& w, float& velocity) const {
    velocity = mu * velocity + gradient;
    w -= lr * velocity;
  }
  float lr, mu;
};

struct MxnetSgd : Sgd {
  using Sgd::Sgd;
  [[gnu::always_inline]] void operator()(float gradient, float& w, float& velocity) const {
    velocity = mu * velocity - lr * gradient;
    w += velocity;
  }
};

struct Nesterov : Sgd {
  using Sgd::Sgd;
  [[gnu::always_inline]] void operator()(float gradient, float& w, float& velocity) const {
    velocity = mu * velocity + gradient;
    w -= lr * (gradient + mu * velocity);
  }
};

struct MxnetNesterov : Sgd {
  using Sgd::Sgd;
  [[gnu::always_inline]] void operator()(float gradient, float& w, float& velocity) const {
    const float move = lr * gradient;
    velocity = mu * velocity - move;
    w += mu * velocity - move;
  }
};

struct Adam {
  Adam(const UpdateRule& rule, const UpdateStep& step)
      : beta1(step.momentum), beta2(rule.beta2), epsilon(rule.epsilon) {
    const auto count = static_cast<double>(step.update_count);
    const double bias1 = 1 - std::pow(static_cast<double>(beta1), count);
    const double bias2 = 1 - std::pow(static_cast<double>(beta2), count);
    rate = static_cast<float>(step.lr / bias1);
    root_bias = static_cast<float>(std::sqrt(bias2));
  }
  [[gnu::always_inline]] void operator()(float gradient, float& w, float& mean,
                                         float& square) const {
    mean = beta1 * mean + (1 - beta1) * gradient;
    square = beta2 * square + (1 - beta2) * (gradient * gradient);
    w -= rate * mean / (std::sqrt(square) / root_bias + epsilon);
  }
  float beta1, beta2, epsilon, rate, root_bias;
};

// One loop a formula, so that the compiler vectorises it. The formula comes as a copy, which no
// store through a pointer can change.
template <class Formula>
[[gnu::always_inline]] inline void loop(Formula formula, float decay, const SegmentPart& part) {
  float* __restrict w = part.weights.data();
  const float* __restrict g = part.gradients.data();
  float* __restrict slot0 = part.slots[0].data();
  float* __restrict slot1 = part.slots[1].data();
  const std::size_t count = part.weights.size();
  for (std::size_t i = 0; i < count; ++i) {
    const float gradient = g[i] + decay * w[i];
    if constexpr (std::is_invocable_v<Formula, float, float&>) {
      formula(gradient, w[i]);
    } else if constexpr (std::is_invocable_v<Formula, float, float&, float&>) {
      formula(gradient, w[i], slot0[i]);
    } else {
      formula(gradient, w[i], slot0[i], slot1[i]);
    }
  }
}

template <class Formula>
[[gnu::target("arch=x86-64-v4")]] void loop_avx512(Formula formula, float decay,
                                                   const SegmentPart& part) {
  loop(formula, decay, part);
}

template <class Formula>
[[gnu::target("arch=x86-64-v3")]] void loop_avx2(Formula formula, float decay,
                                                 const SegmentPart& part) {
  loop(formula, decay, part);
}

// By hand, because programs with target_clones crash under ThreadSanitizer before main.
template <class Formula>
void apply(const UpdateRule& rule, const UpdateStep& step, float decay, const SegmentPart& part) {
  const Formula formula(rule, step);
  if (__builtin_cpu_supports("x86-64-v4")) return loop_avx512(formula, decay, part);
  if (__builtin_cpu_supports("x86-64-v3")) return loop_avx2(formula, decay, part);
  loop(formula, decay, part);
}

constexpr std::string_view kVelocity[] = {"momentum_buffer"};
constexpr std::string_view kMoments[] = {"exp_avg", "exp_avg_sq"};

struct Row {
  OptimizerKind kind;
  bool is_momentum;  // without momentum it is plain SGD and keeps no slots
  std::span<const std::string_view> slots;
  decltype(&apply<PlainSgd>) form;  // PyTorch's, or the one that there is
  decltype(&apply<PlainSgd>) mxnet_form;
};

constexpr Row kRows[] = {
    {OptimizerKind::kSgd, true, kVelocity, apply<Sgd>, apply<MxnetSgd>},
    {OptimizerKind::kNesterov, true, kVelocity, apply<Nesterov>, apply<MxnetNesterov>},
    {OptimizerKind::kAdam, false, kMoments, apply<Adam>, apply<Adam>},
};

const Row& row_of(OptimizerKind kind) {
  for (const Row& row : kRows) {
    if (row.kind == kind) return row;
  }
  __builtin_unreachable();
}

void average(float momentum, float parts, std::span<float> running, std::span<const float> sums) {
  for (std::size_t i = 0; i < running.size(); ++i) {
    running[i] = (1 - momentum) * running[i] + momentum * (sums[i] / parts);
  }
}

}  // namespace

std::span<const std::string_view> slot_names(const UpdateRule& rule, bool has_momentum) {
  const Row& row = row_of(rule.kind);
  return row.is_momentum && !has_momentum ? std::span<const std::string_view>() : row.slots;
}

bool decays(DecayScope scope, SegmentKind kind) {
  if (!tensor::is_trainable(kind)) return false;
  if (scope == DecayScope::kAll || kind == SegmentKind::kWeight) return true;
  return scope == DecayScope::kWeightsAndGamma && kind == SegmentKind::kGamma;
}

void update(const UpdateRule& rule, const UpdateStep& step, const SegmentPart& part) {
  assert(part.gradients.size() == part.weights.size());
  if (part.kind == SegmentKind::kControl) return;
  if (part.kind == SegmentKind::kStatistic) {
    return average(rule.statistic_momentum, step.statistic_parts, part.weights, part.gradients);
  }
  const float decay = decays(rule.decay_scope, part.kind) ? rule.weight_decay : 0;
  const Row& row = row_of(rule.kind);
  if (part.slots[0].empty()) return apply<PlainSgd>(rule, step, decay, part);
  (rule.form == MomentumForm::kMxnet ? row.mxnet_form : row.form)(rule, step, decay, part);
}

}  // namespace coxswain::optim
