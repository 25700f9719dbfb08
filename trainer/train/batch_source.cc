#include "trainer/train/batch_source.h"

namespace coxswain::train {

std::optional<data::BatchRequest> BatchSource::operator()() {
  while (true) {
    while (next_micro_ < plan_.micro_batches.size()) {
      const MicroBatch& micro = plan_.micro_batches[next_micro_++];
      if (micro.sample_ids.empty()) continue;
      return data::BatchRequest{
          {micro.sample_ids.begin(), micro.sample_ids.end()}, order_epoch_, 0};
    }
    if (!next_step()) return std::nullopt;
  }
}

bool BatchSource::next_step() {
  while (at_.epoch < last_epoch_) {
    if (order_epoch_ != at_.epoch) {
      order_ = std::make_shared<data::EpochOrder>(sampler_, at_.epoch);
      order_epoch_ = at_.epoch;
    }
    if (at_.step_in_epoch < order_->steps()) {
      plan_ = plan_step(cut_, *order_, at_.step_in_epoch++, rank_);
      next_micro_ = 0;
      return true;
    }
    at_ = {at_.epoch + 1, 0};
  }
  return false;
}

}  // namespace coxswain::train
