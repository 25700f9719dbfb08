#include "trainer/train/joined_norms.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/contract/error.h"

namespace coxswain::train {

tensor::Slice RankGather::gather(const tensor::Slice& own) {
  if (communicator_.size() == 1) return own;
  tensor::Buffer& room = rooms_[own.size()];
  if (room.slice().size() == 0) room = memory_.allocate(own.size() * communicator_.size());
  communicator_.all_gather(own, room.slice());
  return room.slice();
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
