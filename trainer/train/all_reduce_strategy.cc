#include "trainer/train/all_reduce_strategy.h"

#include <algorithm>
#include <chrono>

namespace coxswain::train {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

AllReduceStrategy::AllReduceStrategy(comm::Communicator& communicator, backend::Backend& backend,
                                     tensor::ParameterBuffer& parameters, const StepCut& cut,
                                     std::int64_t bucket_bytes)
    : communicator_(communicator),
      backend_(backend),
      parameters_(parameters),
      reduction_(cut.reduction()),
      buckets_(make_buckets(parameters.layout(), bucket_bytes)),
      shard_sum_(cut.accumulate > 1 ? parameters.layout().size() : 0),
      parts_(parameters.layout().size()) {}

void AllReduceStrategy::begin(const StepPlan& plan) {
  plan_ = plan;
  micro_ = 0;
  next_bucket_ = 0;
  parts_.clear();
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
  const auto slice = [&](std::span<float> all) {
    return all.subspan(static_cast<std::size_t>(bucket.offset),
                       static_cast<std::size_t>(bucket.length));
  };
  if (shard_sum_used_) add(slice(parameters_.gradients()), slice(shard_sum_.span()));
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
    const auto gradients = parameters_.gradients();
    if (shard_sum_used_) {
      add(shard_sum_.span(), gradients);
    } else {
      std::copy(gradients.begin(), gradients.end(), shard_sum_.data());
    }
    shard_sum_used_ = true;
  }
  ++micro_;
}

// The sum of the first part belongs into the gradient buffer, which is free once the last
// micro-batch is over.
void AllReduceStrategy::finish_shard(bool part_ends) {
  const auto gradients = parameters_.gradients();
  if (shard_sum_used_) add(gradients, shard_sum_.span());
  shard_sum_used_ = false;
  parts_.add_shard(gradients);
  if (part_ends) parts_.finish_part();
  if (!last_micro_batch()) return;
  const auto first = parts_.part(0);
  std::copy(first.begin(), first.end(), gradients.begin());
  start_buckets(parameters_.layout().size());
}

ControlSums AllReduceStrategy::reduce() {
  for (const comm::Ticket ticket : tickets_) communicator_.wait(ticket);
  tickets_.clear();
  return read_control(parameters_.gradients(parameters_.layout().control()));
}

void AllReduceStrategy::update(const optim::UpdateRule& rule, const optim::UpdateStep& step) {
  backend_.update(rule, step, parameters_);
}

std::int64_t measure_bucket_bytes(comm::Communicator& communicator, std::int64_t model_bytes) {
  std::int64_t bytes = model_bytes;
  if (communicator.size() > 1) {
    const comm::ReductionPlan plan = comm::in_rank_order(communicator.size());
    const auto cost = [&](std::int64_t floats) {
      tensor::AlignedBuffer<float> buffer(floats);
      double best = 1e9;
      for (int i = 0; i < 4; ++i) {
        const auto start = Clock::now();
        communicator.wait(communicator.all_reduce_sum(plan, {{buffer.span()}, 0}));
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
