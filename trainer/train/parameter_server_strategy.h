#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "trainer/ps/client_thread.h"
#include "trainer/train/push_judge.h"
#include "trainer/train/rank_sums.h"
#include "trainer/train/strategy.h"

namespace coxswain::train {

// How this worker reaches the servers.
struct ServerAccess {
  net::NetworkOptions network;
  ps::ClientOptions client;
};

// Resource. Servers hold the weights and what the optimizer keeps: every worker pushes its
// gradients, block by block while backward runs, and gets the weights that they come to; the bits
// are AllReduceStrategy's (docs/design.md, "Parameter server"). The communicator carries what is
// not gradients.
class ParameterServerStrategy : public Strategy {
 public:
  // Throws Error when the parameters are not in the host's memory (70), or for more servers than
  // the model can be cut for (65).
  ParameterServerStrategy(const StrategyInputs& inputs, const ServerAccess& servers);

  void initialise(const graph::Program& training) override;
  void restore(const checkpoint::Contents* contents) override;
  std::function<checkpoint::Contents()> snapshot() override;
  bool snapshots_together() const override { return encodes(); }  // with each rank's residuals
  void ask_for_snapshot() override { asks_for_snapshot_ = true; }
  std::vector<std::string> notes() const override;
  void push_exactly() override { servers_.encoder().push_exactly(); }
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
  bool encodes() const { return servers_.encoder().encodes(); }
  bool leads() const { return with_.communicator.rank() == 0; }
  std::string judge_codec();
  void push(const Range& block, const std::vector<tensor::Slice>& parts);

  StrategyInputs with_;
  const ps::Plan plan_;
  ps::ClientThread servers_;
  RankSums sums_;
  const int first_part_;              // of this rank
  const std::vector<Range> padding_;  // that pushes change
  Course course_;
  std::int64_t step_ = 0;              // finished
  bool asks_for_snapshot_ = false;     // goes with the running step's gradients
  bool asks_for_exact_ = false;        // so does this
  double seconds_waited_ = 0;          // since this rank spoke of itself
  backend::RankFigures figures_;       // go with the running step's gradients
  double untold_seconds_waiting_ = 0;  // for the last weights: goes with the next gradients
  PushJudge judge_;
  std::deque<StepOutcome> untold_;
};

StrategyFactory make_parameter_server_strategy(ServerAccess servers);

}  // namespace coxswain::train
