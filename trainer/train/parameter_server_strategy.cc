#include "trainer/train/parameter_server_strategy.h"

#include <utility>

#include "trainer/tensor/host_span.h"
#include "trainer/train/agreement.h"
#include "trainer/train/model_state.h"
#include "trainer/train/padding.h"
#include "trainer/train/residuals.h"
#include "trainer/train/server_plan.h"

namespace coxswain::train {

ParameterServerStrategy::ParameterServerStrategy(const StrategyInputs& inputs,
                                                 const ServerAccess& servers)
    : with_(inputs),
      plan_(plan_for(inputs.parameters, static_cast<int>(servers.client.servers.size()))),
      servers_(servers.network, servers.client, plan_, arrays_of(inputs.parameters),
               inputs.options.codec),
      sums_(inputs.parameters, inputs.cut.accumulate,
            [this](const Range& block, const std::vector<tensor::Slice>& parts) {
              push(block, parts);
            }),
      first_part_(inputs.cut.reduction().first_part(inputs.communicator.rank())),
      padding_(changed_padding(inputs.options.codec, inputs.backend, plan_.layout)),
      judge_(inputs.options.codec, !inputs.options.fixed_order) {
  sums_.cut_into(blocks_of(plan_));
}

void ParameterServerStrategy::initialise(const graph::Program& training) {
  train::initialise(training, with_.options.seed, with_.backend, with_.parameters);
  require_equal_weights(with_.communicator, with_.backend, with_.parameters);
}

void ParameterServerStrategy::restore(const checkpoint::Contents* contents) {
  if (contents != nullptr)
    train::restore(*contents, with_.backend, with_.parameters, slot_names(with_.options));
  broadcast_parameters(with_.communicator, with_.backend, with_.parameters);
  require_equal_weights(with_.communicator, with_.backend, with_.parameters);
  if (encodes())
    restore_residuals(with_.communicator, with_.backend, with_.parameters.layout(), contents,
                      servers_.encoder().residuals());
}

std::vector<std::string> ParameterServerStrategy::notes() const {
  return notes_of(with_.options.codec, servers_.encoder());
}

// No step is begun meanwhile, so that all servers' slots are of one.
std::function<checkpoint::Contents()> ParameterServerStrategy::snapshot() {
  std::vector<checkpoint::NamedTensor> residuals;
  if (encodes())
    residuals = gather_residuals(with_.communicator, with_.backend, with_.parameters.layout(),
                                 servers_.encoder().residuals());
  if (!leads()) return nullptr;
  servers_.fetch_slots();
  return with_residuals(train::snapshot(with_.backend, with_.parameters, slot_names(with_.options)),
                        std::move(residuals));
}

void ParameterServerStrategy::start(const Course& course, std::int64_t step) {
  course_ = course;
  step_ = step;
  servers_.await_servers();
  if (leads()) {
    const auto control = host_span(with_.parameters.weights(with_.parameters.layout().control()));
    servers_.hand_over(step, backend::read_update_count(control));
  }
  with_.communicator.barrier();  // the servers take pushes now
}

void ParameterServerStrategy::tell(const backend::RankFigures& figures) {
  if (figures.rank < 0) return;
  figures_ = figures;
  figures_.seconds_waiting = std::exchange(seconds_waited_, 0);
}

void ParameterServerStrategy::begin(const StepPlan& plan) {
  sums_.begin(plan);
  with_.backend.begin_step(rows_of(plan));
  std::optional<optim::UpdateStep> terms;
  if (leads()) {
    const optim::LearningRate rate = course_.rate(step_);
    terms = optim::UpdateStep{.lr = rate.lr,
                              .momentum = rate.momentum,
                              .statistic_parts = static_cast<float>(plan.statistic_parts)};
  }
  servers_.begin(step_, terms);
}

void ParameterServerStrategy::begin_micro_batch(bool stop) {
  const double waiting = std::exchange(untold_seconds_waiting_, 0);  // not in every micro-batch
  const bool save = std::exchange(asks_for_snapshot_, false);
  const bool exactly = std::exchange(asks_for_exact_, false);
  const backend::RankFigures figures = std::exchange(figures_, {});
  with_.parameters.memory().write(backend::to_control(stop, waiting, save, exactly, figures),
                                  with_.parameters.gradients(with_.parameters.layout().control()));
}

void ParameterServerStrategy::push(const Range& block, const std::vector<tensor::Slice>& parts) {
  for (std::size_t i = 0; i < parts.size(); ++i)
    servers_.push(block.offset, first_part_ + static_cast<int>(i), host_span(parts[i]));
}

void ParameterServerStrategy::finish_step() {
  const auto start = with_.now();
  const backend::ControlFloats control = servers_.finish_step();
  clear(padding_, host_span(with_.parameters.weights()));
  if (encodes()) clear(padding_, servers_.encoder().residuals());
  untold_seconds_waiting_ = std::chrono::duration<double>(with_.now() - start).count();
  seconds_waited_ += untold_seconds_waiting_;
  with_.backend.end_step();
  StepOutcome outcome{backend::read_control(control), course_.rate(step_++).lr};
  if (outcome.sums.push_exactly) push_exactly();
  if (leads() && encodes()) outcome.warning = judge_codec();
  untold_.push_back(std::move(outcome));
}

std::string ParameterServerStrategy::judge_codec() {
  const PushJudge::Opinion opinion = judge_.after(
      step_,
      {.measured =
           [this] {
             compress::Measured measured = servers_.measured();
             measured.decodings = static_cast<double>(with_.communicator.size()) /
                                  static_cast<double>(plan_.map.servers());
             return measured;
           },
       .residuals = [this] { return norm_of(plan_.layout, servers_.encoder().residuals()); },
       .gradients =
           [this] { return norm_of(plan_.layout, host_span(with_.parameters.gradients())); }});
  servers_.measure(judge_.measures());
  asks_for_exact_ = opinion.leaves;
  return opinion.warning;
}

StepOutcome ParameterServerStrategy::outcome() {
  StepOutcome told = std::move(untold_.front());
  untold_.pop_front();
  return told;
}

StrategyFactory make_parameter_server_strategy(ServerAccess servers) {
  return [servers = std::move(servers)](const StrategyInputs& inputs) {
    return std::make_unique<ParameterServerStrategy>(inputs, servers);
  };
}

}  // namespace coxswain::train
