#include "trainer/train/reporter.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace coxswain::train {

namespace {

constexpr double kReportSeconds = 1;  // a step is reported at least this often
constexpr double kNoLoss = std::numeric_limits<double>::quiet_NaN();  // every step was skipped

double share(double part, std::int64_t of) {
  return part / static_cast<double>(std::max<std::int64_t>(1, of));
}

}  // namespace

ReporterOptions reporter_options(const TrainOptions& options, const RunInfo& info) {
  ReporterOptions result{options.report_every_steps, options.tells_top5, info.one_rank_rate};
  if (result.one_rank_rate == 0) result.one_rank_rate.reset();  // nothing was left to measure
  return result;
}

void Reporter::stepped(const checkpoint::State& state, const StepOutcome& outcome,
                       std::int64_t samples) {
  speed_.add(samples, outcome.sums.seconds_waiting / state.world_size);
  if (observer_ == nullptr) return;
  if (outcome.sums.figures.rank >= 0) observer_->told(outcome.sums.figures);
  if (!outcome.warning.empty()) observer_->warned(outcome.warning);
  lr_ = outcome.lr;
  if (outcome.sums.updated) {
    top5_.correct += outcome.sums.correct_top5;
    top5_.samples += outcome.sums.samples;
    return report(state, outcome, 1);
  }
  if (outcome.reduced_scale) {  // Apex's words
    observer_->warned(
        fmt::format("Gradient overflow. Skipping step, loss scaler 0 reducing loss scale to {:.1f}",
                    *outcome.reduced_scale));
    return;
  }
  observer_->warned(fmt::format("step {} skipped: loss or gradients are not finite", state.step));
}

void Reporter::stepped_apart(const checkpoint::State& state, const StepOutcome& outcome,
                             std::int64_t steps, const Staleness& staleness) {
  apart_ = true;
  speed_.add(static_cast<std::int64_t>(outcome.sums.samples), 0, steps);
  if (observer_ == nullptr) return;
  const std::int64_t skipped = steps - staleness.updates;
  staleness_.updates += staleness.updates;
  staleness_.sum += staleness.sum;
  staleness_.most = std::max(staleness_.most, staleness.most);
  if (skipped > 0)
    observer_->warned(
        fmt::format("{} of the steps up to {} skipped: loss or gradients are not "
                    "finite",
                    skipped, state.step));
  lr_ = outcome.lr;
  if (staleness.updates > 0) report(state, outcome, steps);
}

std::optional<double> Reporter::efficiency(const Stretch& stretch) const {
  return apart_ ? std::nullopt : stretch.scaling_efficiency();
}

std::optional<double> Reporter::one_rank_efficiency(const checkpoint::State& state,
                                                    double samples_per_second) const {
  if (!options_.one_rank_rate || apart_) return std::nullopt;
  return samples_per_second / (*options_.one_rank_rate * state.world_size);
}

// Nothing after a resume within the epoch: what was right before it is not known.
std::optional<double> Reporter::training_top5(const checkpoint::State& state) const {
  const bool whole = top5_.samples > 0 && top5_.samples == static_cast<double>(state.epoch_samples);
  if (!options_.tells_top5 || !whole) return std::nullopt;
  return top5_.correct / top5_.samples;
}

void Reporter::report(const checkpoint::State& state, const StepOutcome& outcome,
                      std::int64_t steps) {
  const std::int64_t every = options_.every_steps;
  const bool due = state.step / every != (state.step - steps) / every || state.step == 1 ||
                   speed_.recent().seconds >= kReportSeconds;
  if (!due) return;
  StepReport report;
  report.step = state.step;
  report.epoch = state.epoch + 1;
  report.loss = outcome.sums.loss / std::max(1.0, outcome.sums.samples);
  report.accuracy = share(static_cast<double>(state.epoch_correct), state.epoch_samples);
  report.samples_per_second = speed_.recent().samples_per_second();
  report.seconds_left = static_cast<double>(state.total_steps - state.step) *
                        static_cast<double>(state.global_batch) /
                        std::max(1e-9, report.samples_per_second);
  report.lr = outcome.lr;
  report.scaling_efficiency = efficiency(speed_.epoch());
  report.staleness = staleness_.mean();
  report.top5 = training_top5(state);
  report.one_rank_efficiency = one_rank_efficiency(state, speed_.epoch().samples_per_second());
  if (apart_) report.pushes_per_second = speed_.recent().steps_per_second();
  observer_->stepped(report);
  if (speed_.recent().seconds >= kReportSeconds) speed_.mark();
}

void Reporter::finished_epoch(const checkpoint::State& state, double seconds_waited_for_data,
                              const std::optional<Scores>& scores) {
  if (observer_ == nullptr) return;
  const Stretch steps = speed_.epoch();
  EpochReport report;
  report.epoch = state.epoch + 1;
  report.training_loss =
      state.epoch_samples > 0 ? share(state.epoch_loss_sum, state.epoch_samples) : kNoLoss;
  report.training_accuracy = share(static_cast<double>(state.epoch_correct), state.epoch_samples);
  report.seconds = steps.seconds;
  report.samples_per_second = steps.samples_per_second();
  report.input_bound = seconds_waited_for_data / std::max(1e-9, steps.seconds);
  report.scaling_efficiency = efficiency(steps);
  report.staleness = staleness_.mean();
  report.most_staleness = staleness_.most;
  report.step = state.step;
  report.lr = lr_;
  report.training_top5 = training_top5(state);
  report.one_rank_efficiency = one_rank_efficiency(state, report.samples_per_second);
  report.seconds_in_all = seconds_in_all();
  if (scores.has_value()) {
    report.evaluated = true;
    report.loss = scores->loss;
    report.accuracy = scores->accuracy;
    report.top5 = scores->top5;
  }
  observer_->finished_epoch(report);
}

void Reporter::finished(const checkpoint::State& state, const std::optional<Scores>& scores,
                        const std::string& checkpoint) {
  if (observer_ == nullptr) return;
  const Stretch all = speed_.overall();
  Summary summary;
  summary.result = state.finished ? "Succeeded" : "Saved";
  if (scores.has_value()) summary.accuracy = scores->accuracy;
  if (scores.has_value()) summary.loss = scores->loss;
  summary.epochs = state.epoch;
  summary.steps = state.step;
  summary.samples_per_second = all.samples_per_second();
  summary.scaling_efficiency = efficiency(all);
  if (scores.has_value() && options_.tells_top5) summary.top5 = scores->top5;
  if (all.steps > 0)
    summary.one_rank_efficiency = one_rank_efficiency(state, all.samples_per_second());
  summary.seconds = seconds_in_all();
  summary.checkpoint = checkpoint;
  observer_->finished(summary);
}

}  // namespace coxswain::train
