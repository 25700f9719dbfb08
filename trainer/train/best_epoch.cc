#include "trainer/train/best_epoch.h"

#include <fmt/format.h>

#include <cmath>

namespace coxswain::train {

bool take_best(const CheckpointOptions& options, const Scores& scores, checkpoint::State& state) {
  if (options.best == KeptBest::kNone || !(scores.accuracy > state.best_accuracy)) return false;
  state.best_accuracy = scores.accuracy;
  return true;
}

void count_evaluation(const EarlyStopping& options, const Scores& scores, std::int64_t epoch,
                      checkpoint::State& state) {
  if (options.patience == 0) return;
  const bool by_loss = options.metric == WatchedMetric::kLoss;
  const double value = by_loss ? scores.loss : scores.accuracy;
  const bool is_better = state.watched_epoch == 0 ||
                         (by_loss ? value < state.watched_best : value > state.watched_best);
  if (std::isfinite(value) && is_better) {
    state.watched_best = value;
    state.watched_epoch = epoch;
    state.without_better = 0;
  } else {
    ++state.without_better;
  }
}

bool stops_early(const EarlyStopping& options, const checkpoint::State& state) {
  return options.patience > 0 && state.without_better >= options.patience;
}

std::string why_early(const EarlyStopping& options, const checkpoint::State& state) {
  const std::string best =
      state.watched_epoch == 0
          ? fmt::format("no finite {}", word(options.metric))
          : fmt::format("no better {} than {:.4f} of epoch {}", word(options.metric),
                        state.watched_best, state.watched_epoch);
  return fmt::format("stopped early: {} in {} evaluation{}", best, state.without_better,
                     state.without_better == 1 ? "" : "s");
}

}  // namespace coxswain::train
