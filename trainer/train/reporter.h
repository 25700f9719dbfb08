#pragma once

#include <functional>
#include <optional>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/train/evaluation.h"
#include "trainer/train/observer.h"
#include "trainer/train/speedometer.h"
#include "trainer/train/strategy.h"

namespace coxswain::train {

// Resource. Keeps the pace of a training, and tells rank 0's observer of it; the other ranks' has
// nobody to tell. `state` is always that after what is told.
class Reporter {
 public:
  using Now = std::function<Speedometer::Clock::time_point()>;
  // `observer`: null for a rank that does not lead.
  Reporter(Observer* observer, std::int64_t every_steps, Now now)
      : observer_(observer), every_steps_(every_steps), speed_(std::move(now)) {}

  void start_epoch() { speed_.start_epoch(); }
  void stepped(const checkpoint::State& state, const StepOutcome& outcome, std::int64_t samples);
  // All steps of this epoch that are done in this process.
  void stop_clock() { speed_.finish_epoch(); }
  // `scores`: of the epoch's evaluation, if there was one.
  void finished_epoch(const checkpoint::State& state, double seconds_waited_for_data,
                      const std::optional<Scores>& scores);
  void finished(const checkpoint::State& state, const std::optional<Scores>& scores,
                const std::string& checkpoint);

 private:
  void report(const checkpoint::State& state, const StepOutcome& outcome);

  Observer* observer_;
  std::int64_t every_steps_;
  Speedometer speed_;
};

}  // namespace coxswain::train
