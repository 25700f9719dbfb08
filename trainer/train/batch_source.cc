#include "trainer/train/batch_source.h"

namespace coxswain::train {

std::optional<data::BatchRequest> BatchSource::operator()() {
  if (next_micro_ == plan_.micro_batches.size() && !next_step()) return std::nullopt;
  const MicroBatch& micro = plan_.micro_batches[next_micro_++];
  return data::BatchRequest{
      {micro.sample_ids.begin(), micro.sample_ids.end()}, order_epoch_, 0, micro.before};
}

bool BatchSource::next_step() {
  for (; at_.epoch < last_epoch_; at_ = {at_.epoch + 1, order_->next()}) {
    if (order_epoch_ != at_.epoch) {
      order_ = std::make_shared<data::EpochOrder>(sampler_, at_.epoch, at_.place);
      order_epoch_ = at_.epoch;
      next_step_ = 0;
    }
    if (next_step_ == order_->steps()) continue;
    plan_ = plan_step(cut_, *order_, next_step_++, rank_);
    next_micro_ = 0;
    return true;
  }
  return false;
}

}  // namespace coxswain::train
