#pragma once

#include <cstdint>

// PURE: what the loss is multiplied by in backward, so that small gradients are not lost in fp16
// (Micikevicius et al. 2018, 3.2).
namespace coxswain::train {

// Value. How it is chosen.
struct LossScaling {
  double initial = 1;
  bool dynamic = false;  // else it stays
  bool operator==(const LossScaling&) const = default;
};

// Value. Where it stands.
struct LossScale {
  double scale = 1;
  std::int64_t clean_steps = 0;  // since it changed
  bool operator==(const LossScale&) const = default;
};

// After a step that was made, or skipped since its gradients were not finite: as PyTorch's
// GradScaler, within Apex's bounds. Doubled after 2000 clean steps in a row, at most 2^24; halved
// at each skip, at least 1.
constexpr LossScale next_scale(const LossScaling& how, const LossScale& now, bool updated) {
  constexpr std::int64_t kCleanSteps = 2000;
  constexpr double kMost = 16777216;
  if (!how.dynamic) return now;
  if (!updated) return {now.scale > 2 ? now.scale / 2 : 1, 0};
  if (now.clean_steps + 1 < kCleanSteps) return {now.scale, now.clean_steps + 1};
  return {now.scale * 2 < kMost ? now.scale * 2 : kMost, 0};
}

}  // namespace coxswain::train
