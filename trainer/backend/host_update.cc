#include "trainer/backend/host_update.h"

#include <algorithm>
#include <cmath>

#include "trainer/backend/control.h"
#include "trainer/optim/formulas.h"
#include "trainer/tensor/host_span.h"

namespace coxswain::backend {

using tensor::host_span;

// A finite times zero is zero; infinities and NaN give NaN, which stays in the sum.
bool all_finite(std::span<const float> values) {
  constexpr std::size_t kLanes = 64;
  float sums[kLanes] = {};
  for (std::size_t i = 0; i + kLanes <= values.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += values[i + lane] * 0.0F;
  }
  float rest = 0;
  for (std::size_t i = values.size() / kLanes * kLanes; i < values.size(); ++i)
    rest += values[i] * 0.0F;
  for (const float sum : sums) rest += sum;
  return std::isfinite(rest);
}

std::optional<std::int64_t> count_update(const Parameters& parameters) {
  const tensor::Segment& control = parameters.layout().control();
  const std::span<float> sums = host_span(parameters.gradients(control));
  const bool finite =
      read_control(sums).not_finite == 0 && all_finite(host_span(parameters.gradients()));
  sums[kUpdated] = finite ? 1.0F : 0.0F;
  if (!finite) return std::nullopt;
  const std::int64_t count = read_update_count(host_span(parameters.weights(control))) + 1;
  write_update_count(count, parameters);
  return count;
}

float gradient_factor(const optim::UpdateRule& rule, const Parameters& parameters) {
  if (rule.clip_norm == 0) return 1;
  double sum = 0;
  for (const tensor::Segment& segment : parameters.layout().segments) {
    if (tensor::is_trainable(segment.kind))
      sum += optim::sum_of_squares(host_span(parameters.gradients(segment)));
  }
  return optim::clip_factor(rule.clip_norm, sum);
}

void update_segments(const optim::UpdateRule& rule, const optim::UpdateStep& step,
                     const Parameters& parameters, int first, int last) {
  for (int i = first; i < last; ++i) {
    const tensor::Segment& segment = parameters.layout().segments[static_cast<std::size_t>(i)];
    optim::SegmentPart part{segment.kind,
                            host_span(parameters.weights(segment)),
                            host_span(parameters.gradients(segment)),
                            {}};
    if (segment.dims.size() > 1) part.rows = segment.dims[0];
    for (int slot = 0; slot < parameters.num_slots(); ++slot) {
      part.slots[static_cast<std::size_t>(slot)] = host_span(parameters.slot(slot, segment));
    }
    optim::update(rule, step, part);
  }
}

}  // namespace coxswain::backend
