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

// Loshchilov & Hutter 2019: the decay is the weight's, not the gradient's.
struct AdamW : Adam {
  constexpr AdamW(const UpdateRule& rule, const UpdateStep& step) : Adam(rule, step), lr(step.lr) {}
  [[gnu::always_inline]] constexpr void shrink(float decay, float& w) const { w *= 1 - lr * decay; }
  float lr;
};

// sqrt(n) + epsilon (PyTorch), or sqrt(n + epsilon) (MXNet, Keras): the other term is 0, which
// changes no bit.
struct Divisor {
  constexpr explicit Divisor(const UpdateRule& rule) {
    (rule.form == MomentumForm::kMxnet ? inside : outside) = rule.epsilon;
  }
  [[gnu::always_inline]] constexpr float operator()(float n) const {
    return std::sqrt(n + inside) + outside;
  }
  float inside = 0, outside = 0;
};

struct AdaGrad {
  constexpr AdaGrad(const UpdateRule& rule, const UpdateStep& step) : lr(step.lr), divisor(rule) {}
  [[gnu::always_inline]] constexpr void operator()(float gradient, float& w, float& sum) const {
    sum += gradient * gradient;
    w -= lr * gradient / divisor(sum);
  }
  float lr;
  Divisor divisor;
};

struct AdaDelta {
  constexpr AdaDelta(const UpdateRule& rule, const UpdateStep& step)
      : lr(step.lr), rho(rule.beta2), epsilon(rule.epsilon) {}
  [[gnu::always_inline]] constexpr void operator()(float gradient, float& w, float& square,
                                                   float& deltas) const {
    square = rho * square + (1 - rho) * (gradient * gradient);
    const float delta = std::sqrt(deltas + epsilon) / std::sqrt(square + epsilon) * gradient;
    deltas = rho * deltas + (1 - rho) * (delta * delta);
    w -= lr * delta;
  }
  float lr, rho, epsilon;
};

// The rate stands outside the velocity (PyTorch) or inside (MXNet, Keras); the other factor is 1.
struct RmsBase {
  constexpr RmsBase(const UpdateRule& rule, const UpdateStep& step)
      : mu(step.momentum), rho(rule.beta2), divisor(rule) {
    (rule.form == MomentumForm::kMxnet ? inside : outside) = step.lr;
  }
  [[gnu::always_inline]] constexpr float averaged_square(float gradient, float square) const {
    return rho * square + (1 - rho) * (gradient * gradient);
  }
  // Rounding may put the mean's square above the squares' mean.
  [[gnu::always_inline]] constexpr float variance(float gradient, float square, float& mean) const {
    mean = rho * mean + (1 - rho) * gradient;
    const float difference = square - mean * mean;
    return difference > 0 ? difference : 0;
  }
  [[gnu::always_inline]] constexpr void move(float gradient, float n, float& w) const {
    w -= outside * (inside * gradient / divisor(n));
  }
  [[gnu::always_inline]] constexpr void move(float gradient, float n, float& w,
                                             float& velocity) const {
    velocity = mu * velocity + inside * gradient / divisor(n);
    w -= outside * velocity;
  }
  float mu, rho, inside = 1, outside = 1;
  Divisor divisor;
};

struct RmsProp : RmsBase {
  using RmsBase::RmsBase;
  [[gnu::always_inline]] constexpr void operator()(float gradient, float& w, float& square) const {
    square = averaged_square(gradient, square);
    move(gradient, square, w);
  }
};

struct RmsPropMomentum : RmsBase {
  using RmsBase::RmsBase;
  [[gnu::always_inline]] constexpr void operator()(float gradient, float& w, float& square,
                                                   float& velocity) const {
    square = averaged_square(gradient, square);
    move(gradient, square, w, velocity);
  }
};

struct CenteredRmsProp : RmsBase {
  using RmsBase::RmsBase;
  [[gnu::always_inline]] constexpr void operator()(float gradient, float& w, float& square,
                                                   float& mean) const {
    square = averaged_square(gradient, square);
    move(gradient, variance(gradient, square, mean), w);
  }
};

struct CenteredRmsPropMomentum : RmsBase {
  using RmsBase::RmsBase;
  [[gnu::always_inline]] constexpr void operator()(float gradient, float& w, float& square,
                                                   float& mean, float& velocity) const {
    square = averaged_square(gradient, square);
    move(gradient, variance(gradient, square, mean), w, velocity);
  }
};

// You et al. 2020, as MXNet's lamb_update_phase1 and 2: moments first, then a step in their
// direction, which needs the length of all of it.
struct LambMoments : Adam {
  using Adam::Adam;
  [[gnu::always_inline]] constexpr void shrink(float, float&) const {}
  [[gnu::always_inline]] constexpr void operator()(float gradient, float&, float& mean,
                                                   float& square) const {
    mean = beta1 * mean + (1 - beta1) * gradient;
    square = beta2 * square + (1 - beta2) * (gradient * gradient);
  }
};

struct LambDirection {
  constexpr LambDirection(const UpdateRule& rule, const UpdateStep& step)
      : bias(static_cast<float>(1 - power(static_cast<double>(step.momentum), step.update_count))),
        root_bias(static_cast<float>(
            std::sqrt(1 - power(static_cast<double>(rule.beta2), step.update_count)))),
        epsilon(rule.epsilon) {}
  [[gnu::always_inline]] constexpr float operator()(float mean, float square, float decay,
                                                    float w) const {
    return mean / bias / (std::sqrt(square) / root_bias + epsilon) + decay * w;
  }
  float bias, root_bias, epsilon;
};

// The tensor's rate, of what its weights' squares and the directions' sum to.
constexpr float lamb_rate(const UpdateStep& step, double weights, double directions) {
  const bool has_both = weights > 0 && directions > 0;
  return static_cast<float>(step.lr * (has_both ? std::sqrt(weights) / std::sqrt(directions) : 1));
}

// You et al. 2017, as MXNet's LARS: the rate of a tensor of weights, of what their squares and the
// gradients' sum to.
constexpr float lars_rate(const UpdateRule& rule, const UpdateStep& step, float decay,
                          double weights, double gradients) {
  const double weight = std::sqrt(weights);
  const double gradient = std::sqrt(gradients) * static_cast<double>(step.gradient_factor);
  if (weight == 0 || gradient == 0) return step.lr;
  return static_cast<float>(step.lr * (rule.eta * weight / (gradient + decay * weight)));
}

// Jordan et al. 2024, as torch.optim.Muon with adjust_lr_fn="match_rms_adamw": what a matrix steps
// along, before it is made orthogonal, and the step, which is as long as AdamW's: that what is no
// matrix follows, so that both take one rate.
struct MuonDirection {
  constexpr explicit MuonDirection(const UpdateStep& step) : mu(step.momentum) {}
  [[gnu::always_inline]] constexpr float operator()(float gradient, float& mean) const {
    mean = mu * mean + (1 - mu) * gradient;
    return mu * mean + (1 - mu) * gradient;
  }
  float mu;
};

struct MuonMove {
  constexpr MuonMove(const UpdateStep& step, float decay, float longer_side)
      : rate(step.lr * 0.2F * std::sqrt(longer_side)), kept(1 - step.lr * decay) {}
  [[gnu::always_inline]] constexpr void operator()(float direction, float& w) const {
    w = kept * w - rate * direction;
  }
  float rate, kept;
};

// The step as the elementwise formula takes it.
constexpr UpdateStep elementwise_step(const UpdateRule& rule, const UpdateStep& step) {
  UpdateStep own = step;
  if (rule.kind == OptimizerKind::kMuon) own.momentum = rule.beta1;
  return own;
}

constexpr float sign(float x) { return static_cast<float>(x > 0) - static_cast<float>(x < 0); }

struct PlainSignum : PlainSgd {
  using PlainSgd::PlainSgd;
  [[gnu::always_inline]] constexpr void operator()(float gradient, float& w) const {
    w -= lr * sign(gradient);
  }
};

// MXNet's, whose velocity has the other sign.
struct Signum : Sgd {
  using Sgd::Sgd;
  [[gnu::always_inline]] constexpr void operator()(float gradient, float& w,
                                                   float& velocity) const {
    velocity = mu * velocity + (1 - mu) * gradient;
    w -= lr * sign(velocity);
  }
};

// By what gradients are multiplied whose squares sum to `sum`: torch.nn.utils.clip_grad_norm_.
constexpr float clip_factor(float clip_norm, double sum) {
  if (clip_norm == 0) return 1;
  const double factor = static_cast<double>(clip_norm) / (std::sqrt(sum) + 1e-6);
  return static_cast<float>(factor < 1 ? factor : 1);
}

// The average of a weight, after a step.
[[gnu::always_inline]] constexpr float moved(float decay, float average, float weight) {
  return decay * average + (1 - decay) * weight;
}

// The gradient as the rule takes it.
[[gnu::always_inline]] constexpr float clipped(const UpdateRule& rule, const UpdateStep& step,
                                               float gradient) {
  const float shorter = gradient * step.gradient_factor;
  const float below = shorter < rule.clip_value ? shorter : rule.clip_value;
  return below > -rule.clip_value ? below : -rule.clip_value;
}

// The gradient with its decay, which some formulas take from the weight itself.
template <class Formula>
[[gnu::always_inline]] constexpr float decayed(const Formula& formula, float gradient, float decay,
                                               float& w) {
  if constexpr (requires { formula.shrink(decay, w); }) {
    formula.shrink(decay, w);
    return gradient;
  } else {
    return gradient + decay * w;
  }
}

// One of two formulas.
template <class First, class Second, class Visit>
void one_of(bool first, const Visit& visit) {
  return first ? visit(std::type_identity<First>()) : visit(std::type_identity<Second>());
}

// Calls visit(std::type_identity<Formula>()) with the rule's, for as many slots as it keeps, its
// average not counted.
template <class Visit>
void with_formula(const UpdateRule& rule, int slots, const Visit& visit) {
  const bool mxnet = rule.form == MomentumForm::kMxnet;
  switch (rule.kind) {
    case OptimizerKind::kSgd:
      if (slots == 0) return visit(std::type_identity<PlainSgd>());
      return one_of<MxnetSgd, Sgd>(mxnet, visit);
    case OptimizerKind::kNesterov:
      if (slots == 0) return visit(std::type_identity<PlainSgd>());
      return one_of<MxnetNesterov, Nesterov>(mxnet, visit);
    case OptimizerKind::kAdam:
      return visit(std::type_identity<Adam>());
    case OptimizerKind::kAdamW:
    case OptimizerKind::kMuon:  // what is no matrix
      return visit(std::type_identity<AdamW>());
    case OptimizerKind::kRmsProp:
      if (rule.centered) return one_of<CenteredRmsProp, CenteredRmsPropMomentum>(slots == 2, visit);
      return one_of<RmsProp, RmsPropMomentum>(slots == 1, visit);
    case OptimizerKind::kAdaGrad:
      return visit(std::type_identity<AdaGrad>());
    case OptimizerKind::kAdaDelta:
      return visit(std::type_identity<AdaDelta>());
    case OptimizerKind::kSignum:
      return one_of<PlainSignum, Signum>(slots == 0, visit);
    case OptimizerKind::kLars:  // at the tensor's own rate
      return one_of<PlainSgd, MxnetSgd>(slots == 0, visit);
    case OptimizerKind::kLamb:
      return visit(std::type_identity<LambMoments>());
  }
}

// What a statistic becomes: `parts` of the step were summed.
constexpr float averaged(float running, float sum, float momentum, float parts) {
  return (1 - momentum) * running + momentum * (sum / parts);
}

}  // namespace coxswain::optim
