#pragma once

#include <functional>
#include <optional>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/train/evaluation.h"
#include "trainer/train/observer.h"
#include "trainer/train/speedometer.h"
#include "trainer/train/strategy.h"

namespace coxswain::train {

// Value. How many updates of others came between a worker's weights and its own update.
struct Staleness {
  std::int64_t updates = 0;
  double sum = 0;
  std::int64_t most = 0;
  std::optional<double> mean() const {
    if (updates == 0) return std::nullopt;
    return sum / static_cast<double>(updates);
  }
};

// Resource. Keeps the pace of a training, and tells rank 0's observer of it; the other ranks' has
// nobody to tell. `state` is always that after what is told.
class Reporter {
 public:
  using Now = std::function<Speedometer::Clock::time_point()>;
  // `observer`: null for a rank that does not lead.
  Reporter(Observer* observer, std::int64_t every_steps, Now now)
      : observer_(observer), every_steps_(every_steps), speed_(std::move(now)) {}

  void start_epoch() {
    speed_.start_epoch();
    staleness_ = {};
  }
  void stepped(const checkpoint::State& state, const StepOutcome& outcome, std::int64_t samples);
  // Steps that several workers have done at their own pace: how many, and their sums.
  void stepped_apart(const checkpoint::State& state, const StepOutcome& outcome,
                     std::int64_t steps, const Staleness& staleness);
  // All steps of this epoch that are done in this process.
  void stop_clock() { speed_.finish_epoch(); }
  // `scores`: of the epoch's evaluation, if there was one.
  void finished_epoch(const checkpoint::State& state, double seconds_waited_for_data,
                      const std::optional<Scores>& scores);
  void finished(const checkpoint::State& state, const std::optional<Scores>& scores,
                const std::string& checkpoint);

 private:
  void report(const checkpoint::State& state, const StepOutcome& outcome, std::int64_t steps);
  std::optional<double> efficiency(const Stretch& stretch) const;

  Observer* observer_;
  std::int64_t every_steps_;
  Speedometer speed_;
  bool apart_ = false;  // workers do not wait for each other: there is no such share of time
  Staleness staleness_;
};

}  // namespace coxswain::train
