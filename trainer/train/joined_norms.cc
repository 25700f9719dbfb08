#include "trainer/train/joined_norms.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/contract/error.h"

namespace coxswain::train {

std::span<const float> RankGather::gather(std::span<const float> own) {
  const auto ranks = static_cast<std::size_t>(communicator_.size());
  const auto size = static_cast<std::int64_t>(own.size() * ranks);
  if (buffer_.slice().size() < size) buffer_ = memory_.allocate(size);
  const tensor::Slice all = buffer_.slice().range(0, size);
  memory_.fill(all, 0);
  const auto length = static_cast<std::int64_t>(own.size());
  memory_.write(own, all.range(length * communicator_.rank(), length));
  communicator_.wait(
      communicator_.all_reduce_sum(comm::in_rank_order(communicator_.size()), {.parts = {all}}));
  values_ = memory_.snapshot(all)();
  return values_;
}

void require_samples_on_all(const StepCut& cut, const data::EpochOrder& order) {
  if (order.steps() == 0) return;
  for (int rank = 0; rank < cut.world_size; ++rank) {
    const StepPlan last = plan_step(cut, order, order.steps() - 1, rank);
    if (std::ranges::none_of(last.micro_batches,
                             [](const MicroBatch& micro) { return micro.sample_ids.empty(); }))
      continue;
    throw Error(ExitCode::kBadInput,
                fmt::format("[train] batchNorm: sync needs samples on every rank, and of the {} in "
                            "an epoch's last step none are left for rank {}: raise batchSize, or "
                            "set data.lastBatch: discard",
                            last.global_count, rank));
  }
}

}  // namespace coxswain::train
