#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "trainer/train/coded_sums.h"
#include "trainer/train/rank_sums.h"
#include "trainer/train/strategy.h"

namespace coxswain::train {

// Resource. Every rank holds all weights: sums gradients over all ranks with a Communicator, bucket
// by bucket while backward runs, and updates on every rank alike.
class AllReduceStrategy : public Strategy {
 public:
  // Throws Error when the communicator does not reach the parameters' memory (65), or can't give
  // the order of sums that the options ask for (65).
  explicit AllReduceStrategy(const StrategyInputs& inputs);

  void initialise(const graph::Program& training) override;
  void restore(const checkpoint::Contents* contents) override;
  std::function<checkpoint::Contents()> snapshot() override;
  bool snapshots_together() const override { return encodes(); }  // with each rank's residuals
  void ask_for_snapshot() override { asks_for_snapshot_ = true; }
  void push_exactly() override;
  std::string fingerprint() const override;
  std::vector<std::string> notes() const override;
  void start(const Course& course, std::int64_t step) override;

  void tell(const backend::RankFigures& figures) override;
  void begin(const StepPlan& plan) override;
  void begin_micro_batch(bool stop) override;
  void gradients_ready(int complete) override { sums_.gradients_ready(complete); }
  void finish_micro_batch() override { sums_.finish_micro_batch(); }
  void finish_step() override;
  int lag() const override { return 0; }
  StepOutcome outcome() override;

 private:
  // The sums of a step on their way to the host.
  struct Untold {
    tensor::Memory::Snapshot control;
    float lr;
    std::string warning;
  };
  bool encodes() const { return coded_ && coded_->encoder().encodes(); }

  StrategyInputs with_;
  tensor::Memory& memory_;
  comm::ReductionPlan reduction_;
  Course course_;
  std::int64_t step_ = 0;  // finished

  float statistic_parts_ = 0;       // of the running step
  std::optional<CodedSums> coded_;  // with a codec
  bool asks_for_snapshot_ = false;  // goes with the running step's gradients
  RankSums sums_;
  std::vector<comm::Ticket> tickets_;
  double seconds_waited_ = 0;          // since this rank spoke of itself
  backend::RankFigures figures_;       // go with the running step's gradients
  double untold_seconds_waiting_ = 0;  // for the last sums: goes with the next ones
  std::deque<Untold> untold_;
};

std::unique_ptr<Strategy> make_all_reduce_strategy(const StrategyInputs& inputs);

}  // namespace coxswain::train
