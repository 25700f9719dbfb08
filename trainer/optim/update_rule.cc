#include "trainer/optim/update_rule.h"

#include <algorithm>
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
  float* __restrict slot2 = part.slots[2].data();
  const std::size_t count = part.weights.size();
  for (std::size_t i = 0; i < count; ++i) {
    const float gradient = decayed(formula, g[i], decay, w[i]);
    if constexpr (std::is_invocable_v<Formula, float, float&>) {
      formula(gradient, w[i]);
    } else if constexpr (std::is_invocable_v<Formula, float, float&, float&>) {
      formula(gradient, w[i], slot0[i]);
    } else if constexpr (std::is_invocable_v<Formula, float, float&, float&, float&>) {
      formula(gradient, w[i], slot0[i], slot1[i]);
    } else {
      formula(gradient, w[i], slot0[i], slot1[i], slot2[i]);
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

using Names = std::span<const std::string_view>;
constexpr std::string_view kVelocity[] = {"momentum_buffer"};
constexpr std::string_view kMoments[] = {"exp_avg", "exp_avg_sq"};
constexpr std::string_view kSum[] = {"sum"};
constexpr std::string_view kDeltas[] = {"square_avg", "acc_delta"};
constexpr std::string_view kSquare[] = {"square_avg", "momentum_buffer"};
constexpr std::string_view kVariance[] = {"square_avg", "grad_avg", "momentum_buffer"};

void average(float momentum, float parts, std::span<float> running, std::span<const float> sums) {
  for (std::size_t i = 0; i < running.size(); ++i) {
    running[i] = averaged(running[i], sums[i], momentum, parts);
  }
}

}  // namespace

std::span<const std::string_view> slot_names(const UpdateRule& rule, bool has_momentum) {
  switch (rule.kind) {
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
      return kMoments;
    case OptimizerKind::kAdaGrad:
      return kSum;
    case OptimizerKind::kAdaDelta:
      return kDeltas;
    case OptimizerKind::kRmsProp: {
      const Names names = rule.centered ? Names(kVariance) : Names(kSquare);
      return has_momentum ? names : names.first(names.size() - 1);
    }
    case OptimizerKind::kSgd:
    case OptimizerKind::kNesterov:
    case OptimizerKind::kSignum:
      break;
  }
  return has_momentum ? Names(kVelocity) : Names();
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
  const auto slots =
      std::ranges::count_if(part.slots, [](std::span<float> slot) { return !slot.empty(); });
  with_formula(rule, static_cast<int>(slots), [&]<class Formula>(std::type_identity<Formula>) {
    apply<Formula>(rule, step, decay, part);
  });
}

}  // namespace coxswain::optim
