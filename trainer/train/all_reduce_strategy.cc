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
      shard_sum_(
          memory_.allocate(inputs.cut.accumulate > 1 ? inputs.parameters.layout().size() : 0)),
      parts_(memory_, inputs.parameters.layout().size()) {
  if (!inputs.communicator.reaches(memory_.place())) {
    throw Error(ExitCode::kInternal,
                "[train] the parameters lie in memory that the communicator does not reach");
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
  buckets_ = make_buckets(layout, bytes);
}

void AllReduceStrategy::begin(const StepPlan& plan) {
  plan_ = plan;
  micro_ = 0;
  next_bucket_ = 0;
  parts_.clear();
  std::vector<std::int64_t> rows;
  for (const MicroBatch& micro : plan.micro_batches) rows.push_back(std::ssize(micro.sample_ids));
  with_.backend.begin_step(rows);
}

void AllReduceStrategy::begin_micro_batch(bool stop) {
  const double waiting = std::exchange(untold_seconds_waiting_, 0);  // not in every micro-batch
  memory_.write(backend::to_control(stop, waiting),
                with_.parameters.gradients(with_.parameters.layout().control()));
}

// True when the sum of this rank ends in the gradient buffer itself, so that buckets can leave
// while the last micro-batch still runs: a single part of a single shard.
bool AllReduceStrategy::streams() const {
  const MicroBatch& last = plan_.micro_batches.back();
  return last.part == 0 && last.shard == 0;
}

void AllReduceStrategy::gradients_ready(int complete) {
  if (!last_micro_batch() || !streams()) return;
  const auto& segments = with_.parameters.layout().segments;
  const bool all = complete + 1 == static_cast<int>(segments.size());  // what is left is control
  start_buckets(all ? with_.parameters.layout().size()
                    : segments[static_cast<std::size_t>(complete)].offset);
}

void AllReduceStrategy::start_buckets(std::int64_t complete_floats) {
  while (next_bucket_ < buckets_.size()) {
    const Bucket& bucket = buckets_[next_bucket_];
    if (bucket.offset + bucket.length > complete_floats) return;
    start_bucket(bucket);
    ++next_bucket_;
  }
}

void AllReduceStrategy::start_bucket(const Bucket& bucket) {
  const auto slice = [&](const tensor::Slice& all) {
    return all.range(bucket.offset, bucket.length);
  };
  if (shard_sum_used_) {
    memory_.add(slice(with_.parameters.gradients()), slice(shard_sum_.slice()));
  }
  comm::Reduction reduction;
  reduction.offset = bucket.offset;
  reduction.parts.push_back(slice(with_.parameters.gradients()));
  for (std::size_t i = 1; i < parts_.size(); ++i) reduction.parts.push_back(slice(parts_.part(i)));
  tickets_.push_back(with_.communicator.all_reduce_sum(reduction_, std::move(reduction)));
}

void AllReduceStrategy::finish_micro_batch() {
  const MicroBatch& current = plan_.micro_batches[micro_];
  const MicroBatch* next = last_micro_batch() ? nullptr : &plan_.micro_batches[micro_ + 1];
  const bool part_ends = next == nullptr || next->part != current.part;
  const bool shard_ends = part_ends || next->shard != current.shard;
  if (next == nullptr && streams()) {
    start_buckets(with_.parameters.layout().size());
    shard_sum_used_ = false;
  } else if (shard_ends) {
    finish_shard(part_ends);
  } else {
    if (shard_sum_used_) {
      memory_.add(shard_sum_.slice(), with_.parameters.gradients());
    } else {
      memory_.copy(with_.parameters.gradients(), shard_sum_.slice());
    }
    shard_sum_used_ = true;
  }
  ++micro_;
}

// The sum of the first part belongs into the gradient buffer, which is free once the last
// micro-batch is over.
void AllReduceStrategy::finish_shard(bool part_ends) {
  const tensor::Slice gradients = with_.parameters.gradients();
  if (shard_sum_used_) memory_.add(gradients, shard_sum_.slice());
  shard_sum_used_ = false;
  parts_.add_shard(gradients);
  if (part_ends) parts_.finish_part();
  if (!last_micro_batch()) return;
  memory_.copy(parts_.part(0), gradients);
  start_buckets(with_.parameters.layout().size());
}

void AllReduceStrategy::finish_step() {
  const auto start = with_.now();
  for (const comm::Ticket ticket : tickets_) with_.communicator.wait(ticket);
  tickets_.clear();
  if (with_.communicator.size() > 1) {  // else there is nobody to wait for
    untold_seconds_waiting_ = std::chrono::duration<double>(with_.now() - start).count();
  }
  with_.backend.update(with_.options.rule, course_.rate(step_),
                       static_cast<float>(plan_.statistic_parts), with_.parameters);
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
