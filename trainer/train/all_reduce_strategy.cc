#include "trainer/train/all_reduce_strategy.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace coxswain::train {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

AllReduceStrategy::AllReduceStrategy(comm::Communicator& communicator, backend::Backend& backend,
                                     backend::Parameters& parameters, const optim::UpdateRule& rule,
                                     const StepCut& cut, std::int64_t bucket_bytes, Now now)
    : communicator_(communicator),
      backend_(backend),
      parameters_(parameters),
      rule_(rule),
      now_(std::move(now)),
      reduction_(cut.reduction()),
      buckets_(make_buckets(parameters.layout(), bucket_bytes)),
      shard_sum_(parameters.memory().allocate(cut.accumulate > 1 ? parameters.layout().size() : 0)),
      parts_(parameters.memory(), parameters.layout().size()) {
  if (communicator.reaches(parameters.memory().place())) return;
  throw Error(ExitCode::kInternal,
              "[train] the parameters lie in memory that the communicator does not reach");
}

void AllReduceStrategy::begin(const StepPlan& plan) {
  plan_ = plan;
  micro_ = 0;
  next_bucket_ = 0;
  parts_.clear();
}

void AllReduceStrategy::begin_micro_batch(bool stop) {
  const double waiting = std::exchange(untold_seconds_waiting_, 0);  // not in every micro-batch
  parameters_.memory().write(backend::to_control(stop, waiting),
                             parameters_.gradients(parameters_.layout().control()));
}

// True when the sum of this rank ends in the gradient buffer itself, so that buckets can leave
// while the last micro-batch still runs: a single part of a single shard.
bool AllReduceStrategy::streams() const {
  const MicroBatch& last = plan_.micro_batches.back();
  return last.part == 0 && last.shard == 0;
}

void AllReduceStrategy::gradients_ready(int complete) {
  if (!last_micro_batch() || !streams()) return;
  const auto& segments = parameters_.layout().segments;
  const bool all = complete + 1 == static_cast<int>(segments.size());  // what is left is control
  start_buckets(all ? parameters_.layout().size()
                    : segments[static_cast<std::size_t>(complete)].offset);
}

void AllReduceStrategy::start_buckets(std::int64_t complete_floats) {
  while (next_bucket_ < buckets_.size()) {
    const Bucket& bucket = buckets_[next_bucket_];
    if (bucket.offset + bucket.length > complete_floats) return;
    start(bucket);
    ++next_bucket_;
  }
}

void AllReduceStrategy::start(const Bucket& bucket) {
  const auto slice = [&](const tensor::Slice& all) {
    return all.range(bucket.offset, bucket.length);
  };
  if (shard_sum_used_) {
    parameters_.memory().add(slice(parameters_.gradients()), slice(shard_sum_.slice()));
  }
  comm::Reduction reduction;
  reduction.offset = bucket.offset;
  reduction.parts.push_back(slice(parameters_.gradients()));
  for (std::size_t i = 1; i < parts_.size(); ++i) reduction.parts.push_back(slice(parts_.part(i)));
  tickets_.push_back(communicator_.all_reduce_sum(reduction_, std::move(reduction)));
}

void AllReduceStrategy::finish_micro_batch() {
  const MicroBatch& current = plan_.micro_batches[micro_];
  const MicroBatch* next = last_micro_batch() ? nullptr : &plan_.micro_batches[micro_ + 1];
  const bool part_ends = next == nullptr || next->part != current.part;
  const bool shard_ends = part_ends || next->shard != current.shard;
  if (next == nullptr && streams()) {
    start_buckets(parameters_.layout().size());
    shard_sum_used_ = false;
  } else if (shard_ends) {
    finish_shard(part_ends);
  } else {
    if (shard_sum_used_) {
      parameters_.memory().add(shard_sum_.slice(), parameters_.gradients());
    } else {
      parameters_.memory().copy(parameters_.gradients(), shard_sum_.slice());
    }
    shard_sum_used_ = true;
  }
  ++micro_;
}

// The sum of the first part belongs into the gradient buffer, which is free once the last
// micro-batch is over.
void AllReduceStrategy::finish_shard(bool part_ends) {
  const tensor::Slice gradients = parameters_.gradients();
  if (shard_sum_used_) parameters_.memory().add(gradients, shard_sum_.slice());
  shard_sum_used_ = false;
  parts_.add_shard(gradients);
  if (part_ends) parts_.finish_part();
  if (!last_micro_batch()) return;
  parameters_.memory().copy(parts_.part(0), gradients);
  start_buckets(parameters_.layout().size());
}

backend::ControlSums AllReduceStrategy::finish_step(const optim::LearningRate& rate) {
  const auto start = now_();
  for (const comm::Ticket ticket : tickets_) communicator_.wait(ticket);
  tickets_.clear();
  if (communicator_.size() > 1) {  // else there is nobody to wait for
    untold_seconds_waiting_ = std::chrono::duration<double>(now_() - start).count();
  }
  backend_.update(rule_, rate, static_cast<float>(plan_.statistic_parts), parameters_);
  const tensor::Slice control = parameters_.gradients(parameters_.layout().control());
  return backend::read_control(parameters_.memory().snapshot(control)());
}

std::int64_t measure_bucket_bytes(comm::Communicator& communicator, std::int64_t model_bytes) {
  std::int64_t bytes = model_bytes;
  if (communicator.size() > 1) {
    const comm::ReductionPlan plan = comm::in_rank_order(communicator.size());
    const auto cost = [&](std::int64_t floats) {
      std::vector<float> buffer(static_cast<std::size_t>(floats));
      double best = 1e9;
      for (int i = 0; i < 4; ++i) {
        const auto start = Clock::now();
        communicator.wait(communicator.all_reduce_sum(plan, {{buffer}, 0}));
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

}  // namespace coxswain::train
