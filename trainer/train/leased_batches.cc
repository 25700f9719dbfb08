#include "trainer/train/leased_batches.h"

namespace coxswain::train {

const data::EpochOrder& StepSequence::order() {
  if (!order_) order_.emplace(sampler_, at_.epoch, at_.place);
  return *order_;
}

StepPlan StepSequence::plan(std::int64_t step) {
  while (step >= end()) {
    first_ = end();
    at_ = {at_.epoch + 1, order().next()};
    order_.reset();
  }
  return plan_step(cut_, order(), step - first_, 0);
}

void LeasedBatches::start(StepSequence sequence) { sequence_.emplace(std::move(sequence)); }

void LeasedBatches::add(std::int64_t step) {
  {
    const std::lock_guard lock(mutex_);
    steps_.push_back(step);
  }
  changed_.notify_one();
}

void LeasedBatches::close() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  changed_.notify_one();
}

std::optional<std::int64_t> LeasedBatches::next_step() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return is_closed_ || !steps_.empty(); });
  if (is_closed_) return std::nullopt;
  const std::int64_t step = steps_.front();
  steps_.pop_front();
  return step;
}

std::optional<data::BatchRequest> LeasedBatches::next() {
  if (next_micro_ == plan_.micro_batches.size()) {
    const auto step = next_step();
    if (!step) return std::nullopt;
    plan_ = sequence_->plan(*step);
    next_micro_ = 0;
  }
  const MicroBatch& micro = plan_.micro_batches[next_micro_++];
  return data::BatchRequest{
      {micro.sample_ids.begin(), micro.sample_ids.end()}, sequence_->epoch(), 0, micro.before};
}

}  // namespace coxswain::train
