#include "trainer/optim/update_rule.h"

#include <cassert>
#include <type_traits>

#include "trainer/optim/formulas.h"

namespace coxswain::optim {

namespace {

using tensor::SegmentKind;

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

void average(float momentum, float parts, std::span<float> running, std::span<const float> sums) {
  for (std::size_t i = 0; i < running.size(); ++i) {
    running[i] = averaged(running[i], sums[i], momentum, parts);
  }
}

}  // namespace

std::span<const std::string_view> slot_names(const UpdateRule& rule, bool has_momentum) {
  if (rule.kind == OptimizerKind::kAdam) return kMoments;
  return has_momentum ? std::span<const std::string_view>(kVelocity)
                      : std::span<const std::string_view>();
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
  with_formula(rule, !part.slots[0].empty(), [&]<class Formula>(std::type_identity<Formula>) {
    apply<Formula>(rule, step, decay, part);
  });
}

}  // namespace coxswain::optim
