#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "trainer/backend/control.h"
#include "trainer/comm/sum_parts.h"
#include "trainer/ps/shard.h"

// A small training, and what one process that holds all of it comes to.
namespace coxswain::ps {

using Floats = std::vector<float>;

inline tensor::ParameterLayout small_layout() {
  return tensor::pack(
      {{.name = "mean", .kind = tensor::SegmentKind::kStatistic, .dims = {40}, .stored = 48},
       {.name = "w", .dims = {5000}, .stored = 5008},
       {.name = "b", .kind = tensor::SegmentKind::kBias, .dims = {30}, .stored = 32},
       {.name = "v", .dims = {1500}, .stored = 1504}});
}

inline Plan plan_of(int servers, int num_slots = 1) {
  const auto layout = small_layout();
  return {layout, num_slots, ShardMap(layout, servers)};
}

inline const optim::UpdateRule kRule{.weight_decay = 1e-3F};

inline optim::UpdateStep terms_of(std::int64_t step) {
  optim::UpdateStep terms;
  terms.lr = 0.1F / static_cast<float>(step + 1);
  terms.momentum = 0.9F;
  terms.statistic_parts = 2;
  return terms;
}

// The gradients of a part in a step, of the small layout.
inline const Floats& gradients_of(std::int64_t step, int part) {
  static std::map<std::pair<std::int64_t, int>, Floats> made;
  Floats& values = made[{step, part}];
  if (!values.empty()) return values;
  std::mt19937 random(static_cast<unsigned>(1000 * step + part));
  std::normal_distribution<float> normal;
  values.resize(static_cast<std::size_t>(small_layout().size()));
  std::ranges::generate(values, [&] { return normal(random); });
  std::fill(values.end() - tensor::kControlFloats, values.end(), 0.0F);
  values[values.size() - 14] = 8;  // samples
  return values;
}

// What one process that holds everything comes to.
struct Whole {
  explicit Whole(const Plan& plan)
      : layout(plan.layout),
        weights(static_cast<std::size_t>(layout.size()), 0.5F),
        slot(weights.size()) {
    std::fill(weights.end() - tensor::kControlFloats, weights.end(), 0.0F);
  }
  void make(std::int64_t step, const comm::ReductionPlan& reduction) {
    make(step, reduction, step);
  }
  // With the gradients of another step.
  void make(std::int64_t step, const comm::ReductionPlan& reduction, std::int64_t another) {
    std::vector<Floats> parts;
    std::vector<float*> at;
    for (int part = 0; part < reduction.total_parts(); ++part)
      parts.push_back(pushed(another, part));
    for (Floats& part : parts) at.push_back(part.data());
    Floats sums(weights.size());
    comm::sum_parts(reduction.adds, at, layout.size(), sums.data());
    optim::UpdateStep update = terms_of(step);
    update.update_count = step + 1;
    for (const auto& segment : layout.segments) {
      const auto of = [&](Floats& all) {
        return std::span(all).subspan(static_cast<std::size_t>(segment.offset),
                                      static_cast<std::size_t>(segment.stored));
      };
      optim::update(kRule, update, {segment.kind, of(weights), of(sums), {of(slot), {}}});
    }
    std::ranges::copy(backend::to_floats(step + 1), weights.end() - tensor::kControlFloats);
  }
  tensor::ParameterLayout layout;
  Floats weights;
  Floats slot;
  std::function<Floats(std::int64_t step, int part)> pushed = gradients_of;
};

}  // namespace coxswain::ps
