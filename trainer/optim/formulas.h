#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "trainer/optim/update_rule.h"

// The formulas: what a step does to one weight and its slots, given its gradient, decay included.
// Hosts and devices compile them; without fused multiply-adds they give the same bits.
namespace coxswain::optim {

// base^exponent in a fixed order of multiplications: the libraries' own differ in the last bits.
constexpr double power(double base, std::int64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2, base *= base) {
    if (exponent % 2 != 0) result *= base;
  }
  return result;
}

struct PlainSgd {
  constexpr PlainSgd(const UpdateRule&, const UpdateStep& step) : lr(step.lr) {}
  [[gnu::always_inline]] constexpr void operator()(float gradient, float& w) const {
    w -= lr * gradient;
  }
  float lr;
};

struct Sgd {
  constexpr Sgd(const UpdateRule&, const UpdateStep& step) : lr(step.lr), mu(step.momentum) {}
  [[gnu::always_inline]] constexpr void operator()(float gradient, float& w,
                                                   float& velocity) const {
    velocity = mu * velocity + gradient;
    w -= lr * velocity;
  }
  float lr, mu;
};

struct MxnetSgd : Sgd {
  using Sgd::Sgd;
  [[gnu::always_inline]] constexpr void operator()(float gradient, float& w,
                                                   float& velocity) const {
    velocity = mu * velocity - lr * gradient;
    w += velocity;
  }
};

struct Nesterov : Sgd {
  using Sgd::Sgd;
  [[gnu::always_inline]] constexpr void operator()(float gradient, float& w,
                                                   float& velocity) const {
    velocity = mu * velocity + gradient;
    w -= lr * (gradient + mu * velocity);
  }
};

struct MxnetNesterov : Sgd {
  using Sgd::Sgd;
  [[gnu::always_inline]] constexpr void operator()(float gradient, float& w,
                                                   float& velocity) const {
    const float move = lr * gradient;
    velocity = mu * velocity - move;
    w += mu * velocity - move;
  }
};

struct Adam {
  constexpr Adam(const UpdateRule& rule, const UpdateStep& step)
      : beta1(step.momentum), beta2(rule.beta2), epsilon(rule.epsilon) {
    const double bias1 = 1 - power(static_cast<double>(beta1), step.update_count);
    const double bias2 = 1 - power(static_cast<double>(beta2), step.update_count);
    rate = static_cast<float>(step.lr / bias1);
    root_bias = static_cast<float>(std::sqrt(bias2));
  }
  [[gnu::always_inline]] constexpr void operator()(float gradient, float& w, float& mean,
                                                   float& square) const {
    mean = beta1 * mean + (1 - beta1) * gradient;
    square = beta2 * square + (1 - beta2) * (gradient * gradient);
    w -= rate * mean / (std::sqrt(square) / root_bias + epsilon);
  }
  float beta1, beta2, epsilon, rate, root_bias;
};

// Calls visit(std::type_identity<Formula>()) with the rule's: plain SGD where no slots are kept.
template <class Visit>
void with_formula(const UpdateRule& rule, bool has_slots, const Visit& visit) {
  const bool mxnet = rule.form == MomentumForm::kMxnet;
  if (!has_slots) return visit(std::type_identity<PlainSgd>());
  if (rule.kind == OptimizerKind::kAdam) return visit(std::type_identity<Adam>());
  if (rule.kind == OptimizerKind::kNesterov) {
    return mxnet ? visit(std::type_identity<MxnetNesterov>())
                 : visit(std::type_identity<Nesterov>());
  }
  return mxnet ? visit(std::type_identity<MxnetSgd>()) : visit(std::type_identity<Sgd>());
}

// What a statistic becomes: `parts` of the step were summed.
constexpr float averaged(float running, float sum, float momentum, float parts) {
  return (1 - momentum) * running + momentum * (sum / parts);
}

}  // namespace coxswain::optim
