#include "trainer/optim/update_rule.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <type_traits>

#include "trainer/optim/by_instruction_set.h"
#include "trainer/optim/formulas.h"
#include "trainer/optim/orthogonalise.h"
#include "trainer/tensor/data_type.h"

namespace coxswain::optim {

namespace {

using tensor::SegmentKind;

// One loop a formula, so that the compiler vectorises it. All are copies, which no store through a
// pointer can change.
template <class Formula>
struct Loop {
  Formula formula;
  UpdateRule rule;
  UpdateStep step;
  float decay;
  SegmentPart part;

  [[gnu::always_inline]] void operator()() const {
    const Formula each = formula;
    const UpdateRule by = rule;
    const UpdateStep now = step;
    const float share = decay;
    float* __restrict w = part.weights.data();
    const float* __restrict g = part.gradients.data();
    float* __restrict slot0 = part.slots[0].data();
    float* __restrict slot1 = part.slots[1].data();
    float* __restrict slot2 = part.slots[2].data();
    const std::size_t count = part.weights.size();
    for (std::size_t i = 0; i < count; ++i) {
      const float gradient = decayed(each, clipped(by, now, g[i]), share, w[i]);
      if constexpr (std::is_invocable_v<Formula, float, float&>) {
        each(gradient, w[i]);
      } else if constexpr (std::is_invocable_v<Formula, float, float&, float&>) {
        each(gradient, w[i], slot0[i]);
      } else if constexpr (std::is_invocable_v<Formula, float, float&, float&, float&>) {
        each(gradient, w[i], slot0[i], slot1[i]);
      } else {
        each(gradient, w[i], slot0[i], slot1[i], slot2[i]);
      }
    }
  }
};

using Names = std::span<const std::string_view>;
constexpr std::string_view kVelocity[] = {"momentum_buffer"};
constexpr std::string_view kMoments[] = {"exp_avg", "exp_avg_sq"};
constexpr std::string_view kSum[] = {"sum"};
constexpr std::string_view kDeltas[] = {"square_avg", "acc_delta"};
constexpr std::string_view kSquare[] = {"square_avg", "momentum_buffer"};
constexpr std::string_view kVariance[] = {"square_avg", "grad_avg", "momentum_buffer"};

// Weights alone have a rate of their own.
float rate_of(const UpdateRule& rule, const UpdateStep& step, float decay,
              const SegmentPart& part) {
  if (rule.kind != OptimizerKind::kLars || part.kind != SegmentKind::kWeight) return step.lr;
  return lars_rate(rule, step, decay, sum_of_squares(part.weights), sum_of_squares(part.gradients));
}

// The second half of LAMB, after the moments.
void follow_lamb(const UpdateRule& rule, const UpdateStep& step, float decay,
                 const SegmentPart& part) {
  const LambDirection direction(rule, step);
  const auto at = [&](std::size_t i) {
    return direction(part.slots[0][i], part.slots[1][i], decay, part.weights[i]);
  };
  double squares = 0;
  for (std::size_t i = 0; i < part.weights.size(); ++i)
    squares += static_cast<double>(at(i)) * static_cast<double>(at(i));
  const float rate = lamb_rate(step, sum_of_squares(part.weights), squares);
  for (std::size_t i = 0; i < part.weights.size(); ++i) part.weights[i] -= rate * at(i);
}

void follow_muon(const UpdateRule& rule, const UpdateStep& step, float decay,
                 const SegmentPart& part) {
  const MuonDirection direction(step);
  std::vector<float> directions(part.weights.size());
  for (std::size_t i = 0; i < directions.size(); ++i)
    directions[i] = direction(clipped(rule, step, part.gradients[i]), part.slots[0][i]);
  orthogonalise(directions, part.rows, rule.epsilon);
  const auto columns = static_cast<std::int64_t>(directions.size()) / part.rows;
  const MuonMove move(step, decay, static_cast<float>(std::max(part.rows, columns)));
  for (std::size_t i = 0; i < directions.size(); ++i) move(directions[i], part.weights[i]);
}

void follow_weights(float decay, std::span<float> average, std::span<const float> weights) {
  for (std::size_t i = 0; i < average.size(); ++i)
    average[i] = moved(decay, average[i], weights[i]);
}

void average(float momentum, float parts, std::span<float> running, std::span<const float> sums) {
  for (std::size_t i = 0; i < running.size(); ++i) {
    running[i] = averaged(running[i], sums[i], momentum, parts);
  }
}

Names formula_slots(const UpdateRule& rule, bool has_momentum) {
  switch (rule.kind) {
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
    case OptimizerKind::kLamb:
    case OptimizerKind::kMuon:
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
    case OptimizerKind::kLars:
      break;
  }
  return has_momentum ? Names(kVelocity) : Names();
}

}  // namespace

std::vector<std::string_view> slot_names(const UpdateRule& rule, bool has_momentum) {
  const Names names = formula_slots(rule, has_momentum);
  std::vector<std::string_view> all(names.begin(), names.end());
  if (rule.ema_decay > 0) all.push_back(kAverageSlot);
  return all;
}

// In lanes, so that a compiler may use vectors, and always the same.
double sum_of_squares(std::span<const float> values) {
  constexpr std::size_t kLanes = 16;
  double sums[kLanes] = {};
  for (std::size_t i = 0; i < values.size(); ++i)
    sums[i % kLanes] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  double sum = 0;
  for (const double lane : sums) sum += lane;
  return sum;
}

bool decays(DecayScope scope, SegmentKind kind) {
  if (!tensor::is_trainable(kind)) return false;
  if (scope == DecayScope::kAll || kind == SegmentKind::kWeight) return true;
  return scope == DecayScope::kWeightsAndGamma && kind == SegmentKind::kGamma;
}

void update(const UpdateRule& rule, const UpdateStep& step, const SegmentPart& part) {
  assert(part.gradients.size() == part.weights.size());
  if (part.kind == SegmentKind::kControl || part.kind == SegmentKind::kFrozen) return;
  if (part.kind == SegmentKind::kStatistic) {
    return average(rule.statistic_momentum, step.statistic_parts, part.weights, part.gradients);
  }
  const float decay = decays(rule.decay_scope, part.kind) ? rule.weight_decay : 0;
  auto slots =
      std::ranges::count_if(part.slots, [](std::span<float> slot) { return !slot.empty(); });
  if (rule.ema_decay > 0) --slots;
  UpdateStep own = elementwise_step(rule, step);
  own.lr = rate_of(rule, step, decay, part);
  if (rule.kind == OptimizerKind::kMuon && part.rows > 0) {
    follow_muon(rule, step, decay, part);
  } else {
    with_formula(rule, static_cast<int>(slots), [&]<class Formula>(std::type_identity<Formula>) {
      by_instruction_set(Loop<Formula>{Formula(rule, own), rule, own, decay, part});
    });
  }
  if (rule.kind == OptimizerKind::kLamb) follow_lamb(rule, step, decay, part);
  if (rule.rounds_to_half) {
    for (float& w : part.weights) w = tensor::round_to(tensor::DataType::kFloat16, w);
  }
  if (rule.ema_decay > 0)
    follow_weights(rule.ema_decay, part.slots[static_cast<std::size_t>(slots)], part.weights);
}

}  // namespace coxswain::optim
