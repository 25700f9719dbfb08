#include "trainer/train/micro_batch.h"

#include <algorithm>
#include <csignal>
#include <optional>
#include <span>

namespace coxswain::train {

void fail_here(const TrainOptions& options, const AtStep& at, Phase phase) {
  const auto& point = options.fail_point;
  if (!point.has_value() || options.attempt != 0) return;
  if (point->rank == at.rank && point->step <= at.step && point->phase == phase)
    std::raise(SIGKILL);
}

namespace {

const data::HostBatch& next_batch(Started& now) {
  const Timed timed(now.timeline.get(), Part::kLoad);
  return *now.loader->next();
}

// What segments [first, last) have in the gradients, but for statistics, which no loss is in.
void divide_gradients(const backend::Parameters& parameters, double divisor, int first, int last) {
  const auto segments = std::span(parameters.layout().segments);
  const auto range =
      segments.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first));
  const auto trained = std::ranges::find_if_not(
      range, [](const tensor::Segment& s) { return s.kind == tensor::SegmentKind::kStatistic; });
  if (trained == range.end()) return;
  const std::int64_t offset = trained->offset;
  parameters.memory().multiply(parameters.gradients().range(offset, range.back().end() - offset),
                               static_cast<float>(1 / divisor));
}

}  // namespace

void run_micro_batch(const TrainOptions& options, Started& now, const MicroBatch& micro,
                     double count, bool stop, const AtStep& at) {
  fail_here(options, at, Phase::kLoad);
  const data::HostBatch& rows = next_batch(now);
  const backend::Parameters& parameters = *now.parameters;
  if (micro.sample_ids.empty()) {
    parameters.memory().fill(parameters.gradients(), 0);
    now.strategy->begin_micro_batch(stop);
  } else {
    now.strategy->begin_micro_batch(stop);
    backend::Executable& prepared =
        now.executables->get(graph::Mode::kTraining, static_cast<std::int64_t>(rows.labels.size()));
    const double scale = now.state.loss_scale;
    const bool scales = options.loss_scaling.dynamic || scale != 1;  // in all steps or in none
    const bool is_told = now.timeline != nullptr && now.timeline->is_on();
    std::optional<TimedExecutable> timed;
    if (is_told) timed.emplace(prepared, *now.timeline);
    backend::Executable& executable = is_told ? *timed : prepared;
    fail_here(options, at, Phase::kForward);
    backend::forward(executable, {{rows.images, now.loader->table()},
                                  rows.labels,
                                  rows.sample_ids,
                                  options.seed,
                                  rows.epoch,
                                  rows.valid,
                                  count / scale,
                                  rows.partner_labels,
                                  rows.shares,
                                  now.ranks.get()});
    executable.write_sums(parameters.gradients(parameters.layout().control()));
    fail_here(options, at, Phase::kBackward);
    int unscaled = 0;
    backend::backward(executable, [&](int complete) {
      if (scales) divide_gradients(parameters, scale, unscaled, complete);
      unscaled = complete;
      now.strategy->gradients_ready(complete);
    });
  }
  now.strategy->finish_micro_batch();
}

}  // namespace coxswain::train
