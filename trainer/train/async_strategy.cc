#include "trainer/train/async_strategy.h"

#include "trainer/backend/host_update.h"
#include "trainer/tensor/host_span.h"
#include "trainer/train/model_state.h"
#include "trainer/train/padding.h"
#include "trainer/train/push_judge.h"
#include "trainer/train/server_plan.h"

namespace coxswain::train {

AsyncStrategy::AsyncStrategy(const StrategyInputs& inputs, ps::AsyncClientThread& servers,
                             int num_servers, bool hands_over)
    : with_(inputs),
      plan_(plan_for(inputs.parameters, num_servers)),
      servers_(servers),
      hands_over_(hands_over),
      padding_(changed_padding(inputs.options.codec, inputs.backend, plan_.layout)),
      sums_(inputs.parameters, inputs.cut.accumulate,
            [this](const Range& block, const std::vector<tensor::Slice>& parts) {
              servers_.push(block.offset, host_span(parts.front()));
            }) {
  sums_.cut_into(blocks_of(plan_));
  servers_.attach(plan_, arrays_of(inputs.parameters), inputs.options.codec);
}

void AsyncStrategy::initialise(const graph::Program& training) {
  train::initialise(training, with_.options.seed, with_.backend, with_.parameters);
}

void AsyncStrategy::restore(const checkpoint::Contents* contents) {
  train::restore(*contents, with_.backend, with_.parameters, slot_names(with_.options));
}

// Nobody trains meanwhile, so that all servers' slots are of one step.
std::function<checkpoint::Contents()> AsyncStrategy::snapshot() {
  servers_.fetch_slots();
  return train::snapshot(with_.backend, with_.parameters, slot_names(with_.options));
}

std::vector<std::string> AsyncStrategy::notes() const {
  return notes_of(with_.options.codec, servers_.encoder());
}

void AsyncStrategy::start(const Course& course, std::int64_t step) {
  course_ = course;
  step_ = step;
  if (!hands_over_) return servers_.pull(step);
  const auto control = host_span(with_.parameters.weights(with_.parameters.layout().control()));
  servers_.hand_over(step, backend::read_update_count(control));
}

void AsyncStrategy::begin(const StepPlan& plan) {
  sums_.begin(plan);
  statistic_parts_ = static_cast<float>(plan.statistic_parts);
  with_.backend.begin_step(rows_of(plan));
  servers_.begin(step_);
}

void AsyncStrategy::begin_micro_batch(bool) {
  with_.parameters.memory().write(backend::to_control(false, 0),
                                  with_.parameters.gradients(with_.parameters.layout().control()));
}

void AsyncStrategy::finish_step() {
  const auto start = with_.now();
  const auto control = host_span(with_.parameters.gradients(with_.parameters.layout().control()));
  backend::ControlSums sums = backend::read_control(control);
  sums.updated =
      sums.not_finite == 0 && backend::all_finite(host_span(with_.parameters.gradients()));
  const optim::LearningRate rate = course_.rate(step_);
  std::optional<optim::UpdateStep> terms;
  if (sums.updated)
    terms = optim::UpdateStep{
        .lr = rate.lr, .momentum = rate.momentum, .statistic_parts = statistic_parts_};
  servers_.finish_push(terms);
  clear(padding_, host_span(with_.parameters.weights()));
  clear(padding_, servers_.encoder().residuals());
  with_.backend.end_step();
  sums.seconds_waiting = std::chrono::duration<double>(with_.now() - start).count();
  outcome_ = {sums, rate.lr};
}

}  // namespace coxswain::train
