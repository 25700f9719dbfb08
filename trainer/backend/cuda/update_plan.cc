#include "trainer/backend/cuda/update_plan.h"

namespace coxswain::backend::cuda {

namespace {

Change change_of(const tensor::Segment& segment, DecayScope scope) {
  if (segment.kind == tensor::SegmentKind::kStatistic) return Change::kStatistic;
  if (!tensor::is_trainable(segment.kind)) return Change::kNothing;
  return optim::decays(scope, segment.kind) ? Change::kDecayed : Change::kUndecayed;
}

}  // namespace

UpdatePlan plan_update(const tensor::ParameterLayout& layout, DecayScope scope) {
  UpdatePlan plan;
  plan.changes.resize(static_cast<std::size_t>(layout.size() / kGranule));
  for (const tensor::Segment& segment : layout.segments) {
    const std::int64_t last = (segment.end() + kGranule - 1) / kGranule;
    for (std::int64_t i = segment.offset / kGranule; i < last; ++i)
      plan.changes[static_cast<std::size_t>(i)] = change_of(segment, scope);
  }
  return plan;
}

}  // namespace coxswain::backend::cuda
