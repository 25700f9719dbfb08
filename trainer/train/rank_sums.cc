#include "trainer/train/rank_sums.h"

#include <utility>

namespace coxswain::train {

RankSums::RankSums(const backend::Parameters& parameters, int accumulate, HandOver hand_over)
    : parameters_(parameters),
      memory_(parameters.memory()),
      hand_over_(std::move(hand_over)),
      shard_sum_(memory_.allocate(accumulate > 1 ? parameters.layout().size() : 0)),
      parts_(memory_, parameters.layout().size()) {}

void RankSums::begin(const StepPlan& plan) {
  plan_ = plan;
  micro_ = 0;
  next_ = 0;
  parts_.clear();
}

// True when the sum of this rank ends in the gradient buffer itself, so that ranges can leave while
// the last micro-batch still runs: a single part of a single shard.
bool RankSums::streams() const {
  const MicroBatch& last = plan_.micro_batches.back();
  return last.part == 0 && last.shard == 0;
}

void RankSums::gradients_ready(int complete) {
  if (!last_micro_batch() || !streams()) return;
  const auto& segments = parameters_.layout().segments;
  const bool all = complete + 1 == static_cast<int>(segments.size());  // what is left is control
  hand_over_until(all ? parameters_.layout().size()
                      : segments[static_cast<std::size_t>(complete)].offset);
}

void RankSums::hand_over_until(std::int64_t complete_floats) {
  for (; next_ < ranges_.size(); ++next_) {
    const Range& range = ranges_[next_];
    if (range.end() > complete_floats) return;
    hand_over_(range, parts_of(range));
  }
}

std::vector<tensor::Slice> RankSums::parts_of(const Range& range) {
  const auto slice = [&](const tensor::Slice& all) {
    return all.range(range.offset, range.length);
  };
  if (shard_sum_used_) memory_.add(slice(parameters_.gradients()), slice(shard_sum_.slice()));
  std::vector<tensor::Slice> parts = {slice(parameters_.gradients())};
  for (std::size_t i = 1; i < parts_.size(); ++i) parts.push_back(slice(parts_.part(i)));
  return parts;
}

void RankSums::finish_micro_batch() {
  const MicroBatch& current = plan_.micro_batches[micro_];
  const MicroBatch* next = last_micro_batch() ? nullptr : &plan_.micro_batches[micro_ + 1];
  const bool part_ends = next == nullptr || next->part != current.part;
  const bool shard_ends = part_ends || next->shard != current.shard;
  if (next == nullptr && streams()) {
    hand_over_until(parameters_.layout().size());
    shard_sum_used_ = false;
  } else if (shard_ends) {
    finish_shard(part_ends);
  } else {
    if (shard_sum_used_) {
      memory_.add(shard_sum_.slice(), parameters_.gradients());
    } else {
      memory_.copy(parameters_.gradients(), shard_sum_.slice());
    }
    shard_sum_used_ = true;
  }
  ++micro_;
}

// The sum of the first part belongs into the gradient buffer, which is free once the last
// micro-batch is over.
void RankSums::finish_shard(bool part_ends) {
  const tensor::Slice gradients = parameters_.gradients();
  if (shard_sum_used_) memory_.add(gradients, shard_sum_.slice());
  shard_sum_used_ = false;
  parts_.add_shard(gradients);
  if (part_ends) parts_.finish_part();
  if (!last_micro_batch()) return;
  memory_.copy(parts_.part(0), gradients);
  hand_over_until(parameters_.layout().size());
}

}  // namespace coxswain::train
