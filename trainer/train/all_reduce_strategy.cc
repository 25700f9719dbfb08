#include "trainer/train/all_reduce_strategy.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "trainer/train/agreement.h"
#include "trainer/train/averaged_weights.h"
#include "trainer/train/model_state.h"
#include "trainer/train/residuals.h"
#include "trainer/train/timeline.h"

namespace coxswain::train {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// What an all-reduce costs on this communicator, in seconds, as this rank sees it.
struct NetworkCost {
  double message = 0;
  double byte = 1e-12;
};

// Takes a few milliseconds.
NetworkCost measure_network(comm::Communicator& communicator, tensor::Memory& memory) {
  if (communicator.size() == 1) return {};
  const comm::ReductionPlan plan = comm::in_rank_order(communicator.size());
  const auto cost = [&](std::int64_t floats) {
    const tensor::Buffer buffer = memory.allocate(floats);
    double best = 1e9;
    for (int i = 0; i < 4; ++i) {
      const auto start = Clock::now();
      communicator.wait(communicator.all_reduce_sum(plan, {{buffer.slice()}, 0}));
      memory.snapshot(buffer.slice().range(0, 1))();  // a device sums after wait()
      best = std::min(best, seconds_since(start));
    }
    return best;
  };
  constexpr std::int64_t kSmall = 64;
  constexpr std::int64_t kLarge = 256 << 10;  // 1 MiB
  const double message = cost(kSmall);
  return {message, std::max(1e-12, (cost(kLarge) - message) / (kLarge * sizeof(float)))};
}

// For a model of `model_bytes`; every rank gets rank 0's answer.
std::int64_t agreed_bucket_bytes(comm::Communicator& communicator, const NetworkCost& cost,
                                 std::int64_t model_bytes) {
  std::int64_t bytes = communicator.size() == 1
                           ? model_bytes
                           : best_bucket_bytes(model_bytes, cost.message, cost.byte);
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
                  reduction_,
                  {std::move(parts), bucket.offset, encodes() ? &coded_->codec() : nullptr}));
            }) {
  if (!inputs.communicator.reaches(memory_.place())) {
    throw Error(ExitCode::kBadInput,
                "[train] this communicator does not reach what lies on a GPU: train with one rank, "
                "or say device: cpu");
  }
  if (inputs.options.fixed_order && !inputs.communicator.fixed_order()) {
    throw Error(ExitCode::kBadInput,
                "[train] sums in a fixed order are not to be had here: write reproducible: none");
  }
  if (!inputs.options.codec.encodes()) return;
  if (memory_.place() != tensor::Place::kHost) {
    throw Error(ExitCode::kBadInput,
                "[train] gradients on a GPU are summed whole and as they are in this version: "
                "leave communication.compression and partial out, or say device: cpu");
  }
  coded_.emplace(inputs.options, inputs.parameters);
  if (inputs.communicator.size() == 1) coded_->encoder().push_exactly();  // nothing is sent
}

void AllReduceStrategy::initialise(const graph::Program& training) {
  train::initialise(training, with_.options.seed, with_.backend, with_.parameters);
  begin_average(with_.options.rule, with_.parameters);
  require_equal_weights(with_.communicator, with_.backend, with_.parameters);
}

void AllReduceStrategy::restore(const checkpoint::Contents* contents) {
  if (contents != nullptr) {
    train::restore(*contents, with_.backend, with_.parameters, slot_names(with_.options));
  }
  broadcast_parameters(with_.communicator, with_.backend, with_.parameters);
  require_equal_weights(with_.communicator, with_.backend, with_.parameters);
  if (encodes())
    restore_residuals(with_.communicator, with_.backend, with_.parameters.layout(), contents,
                      coded_->encoder().residuals());
}

std::function<checkpoint::Contents()> AllReduceStrategy::snapshot() {
  std::vector<checkpoint::NamedTensor> residuals;
  if (encodes())
    residuals = gather_residuals(with_.communicator, with_.backend, with_.parameters.layout(),
                                 coded_->encoder().residuals());
  if (encodes() && with_.communicator.rank() != 0) return nullptr;
  return with_residuals(train::snapshot(with_.backend, with_.parameters, slot_names(with_.options)),
                        std::move(residuals));
}

void AllReduceStrategy::push_exactly() {
  if (coded_) coded_->encoder().push_exactly();
}

// With a codec the sums are others than a server's.
std::string AllReduceStrategy::fingerprint() const {
  return coded_ && with_.communicator.size() > 1 ? " sums=coded" : "";
}

std::vector<std::string> AllReduceStrategy::notes() const {
  if (!coded_) return {};
  if (with_.communicator.size() == 1)
    return {fmt::format("one rank sends nothing: {} changes nothing", key_of(with_.options.codec))};
  return notes_of(with_.options.codec, coded_->encoder());
}

void AllReduceStrategy::start(const Course& course, std::int64_t step) {
  course_ = course;
  step_ = step;
  const tensor::ParameterLayout& layout = with_.parameters.layout();
  NetworkCost cost;
  std::int64_t bytes = with_.options.bucket_bytes;
  if (bytes == 0 || encodes()) cost = measure_network(with_.communicator, memory_);
  if (bytes == 0)
    bytes =
        agreed_bucket_bytes(with_.communicator, cost, layout.size() * std::int64_t{sizeof(float)});
  std::vector<Range> buckets = make_buckets(layout, bytes);
  if (coded_) {
    buckets = to_whole_blocks(buckets, comm::kOwnerBlock);
    coded_->measured_network(cost.byte);
  }
  sums_.cut_into(std::move(buckets));
}

void AllReduceStrategy::tell(const backend::RankFigures& figures) {
  if (figures.rank < 0) return;
  figures_ = figures;
  figures_.seconds_waiting = std::exchange(seconds_waited_, 0);
}

void AllReduceStrategy::begin(const StepPlan& plan) {
  statistic_parts_ = static_cast<float>(plan.statistic_parts);
  if (coded_) coded_->encoder().begin_step(step_);
  sums_.begin(plan);
  // A device that records steps must do so on all ranks or on none.
  std::vector<std::int64_t> rows = rows_of(plan);
  rows.push_back(plan.global_count);
  with_.backend.begin_step(rows);
}

void AllReduceStrategy::begin_micro_batch(bool stop) {
  const double waiting = std::exchange(untold_seconds_waiting_, 0);  // not in every micro-batch
  const bool save = std::exchange(asks_for_snapshot_, false);
  const bool exactly = coded_ && coded_->asks_for_exact();
  const backend::RankFigures figures = std::exchange(figures_, {});
  memory_.write(backend::to_control(stop, waiting, save, exactly, figures),
                with_.parameters.gradients(with_.parameters.layout().control()));
}

void AllReduceStrategy::finish_step() {
  const auto start = with_.now();
  for (std::size_t i = 0; i < tickets_.size(); ++i) {
    const Timed timed(with_.timeline, Part::kWait, "bucket", static_cast<std::int64_t>(i));
    with_.communicator.wait(tickets_[i]);
  }
  tickets_.clear();
  if (with_.communicator.size() > 1) {  // else there is nobody to wait for
    untold_seconds_waiting_ = std::chrono::duration<double>(with_.now() - start).count();
    seconds_waited_ += untold_seconds_waiting_;
  }
  {
    const Timed timed(with_.timeline, Part::kUpdate);
    with_.backend.update(with_.options.rule, course_.rate(step_), statistic_parts_,
                         with_.parameters);
    with_.backend.end_step();
  }
  const tensor::Segment& control = with_.parameters.layout().control();
  untold_.push_back(
      {memory_.snapshot(with_.parameters.gradients(control)), course_.rate(step_++).lr, ""});
  if (encodes())
    untold_.back().warning = coded_->finish_step(step_, with_.communicator.rank() == 0);
}

StepOutcome AllReduceStrategy::outcome() {
  const Untold untold = std::move(untold_.front());
  untold_.pop_front();
  return {backend::read_control(untold.control()), untold.lr, untold.warning};
}

std::unique_ptr<Strategy> make_all_reduce_strategy(const StrategyInputs& inputs) {
  return std::make_unique<AllReduceStrategy>(inputs);
}

}  // namespace coxswain::train
