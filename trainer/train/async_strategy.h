#pragma once

#include "trainer/ps/async_client_thread.h"
#include "trainer/train/rank_sums.h"
#include "trainer/train/strategy.h"

namespace coxswain::train {

// Resource. Servers hold the weights and what the optimizer keeps; this worker pushes the gradients
// of steps of its own to them, and gets the weights that the others have changed meanwhile too
// (docs/design.md, "Asynchronous training"). The communicator is of this worker alone.
class AsyncStrategy : public Strategy {
 public:
  // `hands_over`: the servers begin with this worker's weights. Throws as ParameterServerStrategy.
  AsyncStrategy(const StrategyInputs& inputs, ps::AsyncClientThread& servers, int num_servers,
                bool hands_over);

  void initialise(const graph::Program& training) override;
  void restore(const checkpoint::Contents* contents) override;
  std::function<checkpoint::Contents()> snapshot() override;
  std::vector<std::string> notes() const override;
  void start(const Course& course, std::int64_t step) override;

  void lease(std::int64_t step) { step_ = step; }  // which begin() is of
  void begin(const StepPlan& plan) override;
  void begin_micro_batch(bool stop) override;
  void gradients_ready(int complete) override { sums_.gradients_ready(complete); }
  void finish_micro_batch() override { sums_.finish_micro_batch(); }
  // A step that is not finite changes nothing.
  void finish_step() override;
  int lag() const override { return 0; }
  StepOutcome outcome() override { return outcome_; }  // of this worker's newest step

 private:
  StrategyInputs with_;
  const ps::Plan plan_;
  ps::AsyncClientThread& servers_;
  const bool hands_over_;
  const std::vector<Range> padding_;  // that pushes change
  RankSums sums_;
  Course course_;
  float statistic_parts_ = 1;
  std::int64_t step_ = 0;
  StepOutcome outcome_;
};

}  // namespace coxswain::train
