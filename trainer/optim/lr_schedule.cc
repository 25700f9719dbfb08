#include "trainer/optim/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace coxswain::optim {

namespace {

std::int64_t to_steps(double epochs, std::int64_t steps_per_epoch) {
  return std::llround(epochs * static_cast<double>(steps_per_epoch));
}

std::int64_t at_least_one(double epochs, std::int64_t steps_per_epoch) {
  return std::max<std::int64_t>(1, to_steps(epochs, steps_per_epoch));
}

// Half a cosine wave from `start` (progress 0) to `end` (progress 1).
double anneal(double start, double end, double progress) {
  return end + (start - end) / 2 * (std::cos(std::numbers::pi * progress) + 1);
}

// torch.optim.lr_scheduler.OneCycleLR, anneal_strategy="cos", three_phase=False: the peak is at
// step pct_start * total - 1, which need not be whole, and the last step has exactly the final
// rate.
LearningRate one_cycle(const Schedule& s, std::int64_t step, std::int64_t total_steps) {
  const double peak_at = static_cast<double>(s.pct_start) * static_cast<double>(total_steps) - 1;
  const auto end = static_cast<double>(total_steps - 1);
  const auto at = static_cast<double>(step);
  const double start_lr = static_cast<double>(s.lr) / s.div_factor;
  const double final_lr = start_lr / s.final_div_factor;
  double lr = 0;
  double momentum = 0;
  if (at <= peak_at) {
    const double progress = peak_at > 0 ? at / peak_at : 1;
    lr = anneal(start_lr, s.lr, progress);
    momentum = anneal(s.max_momentum, s.base_momentum, progress);
  } else {
    const double progress = end > peak_at ? std::min(1.0, (at - peak_at) / (end - peak_at)) : 1;
    lr = anneal(s.lr, final_lr, progress);
    momentum = anneal(s.base_momentum, s.max_momentum, progress);
  }
  return {static_cast<float>(lr), s.cycle_momentum ? static_cast<float>(momentum) : s.momentum};
}

double times_gamma(const Schedule& s, std::int64_t passed) {
  return s.lr * std::pow(static_cast<double>(s.gamma), static_cast<double>(passed));
}

double multistep(const Schedule& s, std::int64_t step, std::int64_t steps_per_epoch) {
  const auto passed = std::ranges::count_if(
      s.milestones, [&](double milestone) { return step >= to_steps(milestone, steps_per_epoch); });
  return times_gamma(s, passed);
}

// torch.optim.lr_scheduler.CyclicLR; `at` counts steps from the first cycle's begin.
double cyclic(const Schedule& s, std::int64_t at, std::int64_t rise) {
  const std::int64_t cycle = at / (2 * rise);
  const std::int64_t within = at % (2 * rise);
  const double height =
      static_cast<double>(within <= rise ? within : 2 * rise - within) / static_cast<double>(rise);
  const double halved = s.cycle_mode == CycleMode::kTriangular2
                            ? std::ldexp(1.0, -static_cast<int>(std::min<std::int64_t>(cycle, 999)))
                            : 1;
  return s.min_lr + (static_cast<double>(s.lr) - s.min_lr) * height * halved;
}

}  // namespace

LearningRate learning_rate(const Schedule& schedule, std::int64_t step, std::int64_t total_steps,
                           std::int64_t steps_per_epoch) {
  if (schedule.kind == ScheduleKind::kOneCycle) return one_cycle(schedule, step, total_steps);
  const std::int64_t warmup = to_steps(schedule.warmup_epochs, steps_per_epoch);
  const double peak = schedule.lr;
  if (step < warmup) {
    const double share = static_cast<double>(step + 1) / static_cast<double>(warmup);
    const double top = schedule.kind == ScheduleKind::kCyclic ? schedule.min_lr : peak;
    return {static_cast<float>(top * share), schedule.momentum};
  }
  const std::int64_t span = total_steps - 1 - warmup;
  const double progress =
      span > 0 ? std::min(1.0, static_cast<double>(step - warmup) / static_cast<double>(span)) : 0;
  double lr = peak;
  switch (schedule.kind) {
    case ScheduleKind::kMultistep:
      lr = multistep(schedule, step, steps_per_epoch);
      break;
    case ScheduleKind::kStep:
      lr = times_gamma(schedule, step / at_least_one(schedule.step_epochs, steps_per_epoch));
      break;
    case ScheduleKind::kExponential:
      lr = times_gamma(schedule, step / at_least_one(1, steps_per_epoch));
      break;
    case ScheduleKind::kCyclic:
      lr = cyclic(schedule, step - warmup, at_least_one(schedule.rise_epochs, steps_per_epoch));
      break;
    case ScheduleKind::kPoly:
      lr = schedule.min_lr +
           (peak - schedule.min_lr) * std::pow(1 - progress, static_cast<double>(schedule.power));
      break;
    case ScheduleKind::kCosine:
      lr = anneal(peak, schedule.min_lr, progress);
      break;
    case ScheduleKind::kConstant:
    case ScheduleKind::kOneCycle:
      break;
  }
  return {static_cast<float>(lr), schedule.momentum};
}

}  // namespace coxswain::optim
