#include "trainer/train/all_reduce_strategy.h"

#include <algorithm>
#include <utility>

#include "trainer/train/agreement.h"
#include "trainer/train/model_state.h"

namespace coxswain::train {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Measures what an all-reduce costs on this communicator and picks the size for a model of
// `model_bytes`; every rank gets rank 0's answer. Takes a few milliseconds.
std::int64_t measure_bucket_bytes(comm::Communicator& communicator, tensor::Memory& memory,
                                  std::int64_t model_bytes) {
  std::int64_t bytes = model_bytes;
  if (communicator.size() > 1) {
    const comm::ReductionPlan plan = comm::in_rank_order(communicator.size());
    const auto cost = [&](std::int64_t floats) {
      const tensor::Buffer buffer = memory.allocate(floats);
      double best = 1e9;
      for (int i = 0; i < 4; ++i) {
        const auto start = Clock::now();
        communicator.wait(communicator.all_reduce_sum(plan, {{buffer.slice()}, 0}));
        best = std::min(best, seconds_since(start));
      }
      return best;
    };
    constexpr std::int64_t kSmall = 64;
    constexpr std::int64_t kLarge = 256 << 10;  // 1 MiB
    const double message = cost(kSmall);
    const double byte = std::max(1e-12, (cost(kLarge) - message) / (kLarge * sizeof(float)));
    bytes = best_bucket_bytes(model_bytes, message, byte);
  }
  communicator.broadcast(std::as_writable_bytes(std::span(&bytes, 1)), 0);
  return bytes;
}

}  // namespace

AllReduceStrategy::AllReduceStrategy(const StrategyInputs& inputs)
    : with_(inputs),
      memory_(inputs.parameters.memory()),
      reduction_(inputs.cut.reduction()),
      sums_(inputs.parameters, inputs.cut.accumulate,
            [this](const Range& bucket, std::vector<tensor::Slice> parts) {
              tickets_.push_back(with_.communicator.all_reduce_sum(
                  reduction_, {std::move(parts), bucket.offset}));
            }) {
  if (!inputs.communicator.reaches(memory_.place())) {
    throw Error(ExitCode::kBadInput,
                "[train] several ranks cannot sum what lies on a GPU in this version: train with "
                "one rank, or say device: cpu");
  }
  if (inputs.options.fixed_order && !inputs.communicator.fixed_order()) {
    throw Error(ExitCode::kBadInput,
                "[train] sums in a fixed order are not to be had here: write reproducible: none");
  }
}

void AllReduceStrategy::initialise(const graph::Program& training) {
  train::initialise(training, with_.options.seed, with_.backend, with_.parameters);
  require_equal_weights(with_.communicator, with_.backend, with_.parameters);
}

void AllReduceStrategy::restore(const checkpoint::Contents* contents) {
  if (contents != nullptr) {
    train::restore(*contents, with_.backend, with_.parameters, slot_names(with_.options));
  }
  broadcast_parameters(with_.communicator, with_.backend, with_.parameters);
  require_equal_weights(with_.communicator, with_.backend, with_.parameters);
}

std::function<checkpoint::Contents()> AllReduceStrategy::snapshot() {
  return train::snapshot(with_.backend, with_.parameters, slot_names(with_.options));
}

void AllReduceStrategy::start(const Course& course, std::int64_t step) {
  course_ = course;
  step_ = step;
  const tensor::ParameterLayout& layout = with_.parameters.layout();
  std::int64_t bytes = with_.options.bucket_bytes;
  if (bytes == 0) {
    bytes = measure_bucket_bytes(with_.communicator, memory_,
                                 layout.size() * std::int64_t{sizeof(float)});
  }
  sums_.cut_into(make_buckets(layout, bytes));
}

void AllReduceStrategy::begin(const StepPlan& plan) {
  statistic_parts_ = static_cast<float>(plan.statistic_parts);
  sums_.begin(plan);
  with_.backend.begin_step(rows_of(plan));
}

void AllReduceStrategy::begin_micro_batch(bool stop) {
  const double waiting = std::exchange(untold_seconds_waiting_, 0);  // not in every micro-batch
  memory_.write(backend::to_control(stop, waiting),
                with_.parameters.gradients(with_.parameters.layout().control()));
}

void AllReduceStrategy::finish_step() {
  const auto start = with_.now();
  for (const comm::Ticket ticket : tickets_) with_.communicator.wait(ticket);
  tickets_.clear();
  if (with_.communicator.size() > 1) {  // else there is nobody to wait for
    untold_seconds_waiting_ = std::chrono::duration<double>(with_.now() - start).count();
  }
  with_.backend.update(with_.options.rule, course_.rate(step_), statistic_parts_,
                       with_.parameters);
  with_.backend.end_step();
  const tensor::Segment& control = with_.parameters.layout().control();
  untold_.push_back(
      {memory_.snapshot(with_.parameters.gradients(control)), course_.rate(++step_).lr});
}

StepOutcome AllReduceStrategy::outcome() {
  const Untold untold = std::move(untold_.front());
  untold_.pop_front();
  return {backend::read_control(untold.control()), untold.lr};
}

std::unique_ptr<Strategy> make_all_reduce_strategy(const StrategyInputs& inputs) {
  return std::make_unique<AllReduceStrategy>(inputs);
}

}  // namespace coxswain::train
