#pragma once

#include <functional>
#include <optional>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/train/evaluation.h"
#include "trainer/train/observer.h"
#include "trainer/train/speedometer.h"
#include "trainer/train/strategy.h"
#include "trainer/train/train_options.h"

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

// Value. What a reporter tells, and how often.
struct ReporterOptions {
  std::int64_t every_steps = 20;
  bool tells_top5 = false;
  std::optional<double> one_rank_rate;  // images/s
};

ReporterOptions reporter_options(const TrainOptions& options, const RunInfo& info);

// Resource. Keeps the pace of a training, and tells rank 0's observer of it; the other ranks' has
// nobody to tell. `state` is always that after what is told.
class Reporter {
 public:
  using Now = std::function<Speedometer::Clock::time_point()>;
  // `observer`: null for a rank that does not lead.
  Reporter(Observer* observer, const ReporterOptions& options, const Now& now)
      : observer_(observer), options_(options), now_(now), began_(now()), speed_(now) {}

  void start_epoch() {
    speed_.start_epoch();
    staleness_ = {};
    top5_ = {};
  }
  void stepped(const checkpoint::State& state, const StepOutcome& outcome, std::int64_t samples);
  // Steps that several workers have done at their own pace: how many, and their sums.
  void stepped_apart(const checkpoint::State& state, const StepOutcome& outcome, std::int64_t steps,
                     const Staleness& staleness);
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

  double seconds_in_all() const { return std::chrono::duration<double>(now_() - began_).count(); }
  std::optional<double> one_rank_efficiency(const checkpoint::State& state,
                                            double samples_per_second) const;
  std::optional<double> training_top5(const checkpoint::State& state) const;

  // Right answers among the first five, of the epoch's samples that were seen from its begin on.
  struct Top5 {
    double correct = 0;
    double samples = 0;
  };

  Observer* observer_;
  ReporterOptions options_;
  Now now_;
  Speedometer::Clock::time_point began_;
  Top5 top5_;
  std::optional<double> lr_;  // of the last step
  Speedometer speed_;
  bool apart_ = false;  // workers do not wait for each other: there is no such share of time
  Staleness staleness_;
};

}  // namespace coxswain::train
