#include "trainer/train/step_plan.h"

#include <algorithm>
#include <set>

namespace coxswain::train {

namespace {

using Rows = std::span<const std::int64_t>;

Rows slice(Rows rows, int index, int parts) {
  const data::RowRange range = data::cut(static_cast<std::int64_t>(rows.size()), index, parts);
  return rows.subspan(static_cast<std::size_t>(range.first),
                      static_cast<std::size_t>(range.last - range.first));
}

// The last row before those of `index`, of the `count` that a step's rows are dealt to; -1: none.
template <class RowsOf>
std::int64_t row_before(const RowsOf& rows_of, int index, int count) {
  for (int i = 1; i <= count; ++i) {
    const Rows rows = rows_of((index + count - i) % count);
    if (!rows.empty()) return rows.back();
  }
  return -1;
}

void append(std::vector<MicroBatch>& out, Rows rows, int part, int shard, int accumulate,
            std::int64_t before) {
  for (int i = 0; i < accumulate; ++i) {
    out.push_back({slice(rows, i, accumulate), part, shard, before});
    if (!out.back().sample_ids.empty()) before = out.back().sample_ids.back();
  }
}

std::int64_t non_empty(Rows rows, int accumulate) {
  return std::min(static_cast<std::int64_t>(rows.size()), std::int64_t{accumulate});
}

}  // namespace

comm::ReductionPlan StepCut::reduction() const {
  return virtual_shards == 0 ? comm::in_pairs(world_size)
                             : comm::halving_tree(virtual_shards, world_size);
}

std::vector<std::int64_t> rows_of(const StepPlan& plan) {
  std::vector<std::int64_t> rows;
  for (const MicroBatch& micro : plan.micro_batches) rows.push_back(std::ssize(micro.sample_ids));
  return rows;
}

StepPlan plan_step(const StepCut& cut, const data::EpochOrder& order, std::int64_t step, int rank) {
  StepPlan plan;
  plan.global_count = order.global_count(step);
  if (cut.virtual_shards == 0) {
    const auto rows_of = [&](int r) { return order.rank_rows(step, r); };
    append(plan.micro_batches, rows_of(rank), 0, 0, cut.accumulate,
           row_before(rows_of, rank, cut.world_size));
    for (int r = 0; r < cut.world_size; ++r) {
      plan.statistic_parts += non_empty(rows_of(r), cut.accumulate);
    }
    return plan;
  }
  const auto rows_of = [&](int shard) { return order.shard_rows(step, shard, cut.virtual_shards); };
  const auto parts = comm::parts_of(cut.virtual_shards, cut.world_size, rank);
  for (std::size_t part = 0; part < parts.size(); ++part) {
    for (int shard = parts[part].first; shard < parts[part].last; ++shard) {
      append(plan.micro_batches, rows_of(shard), static_cast<int>(part), shard - parts[part].first,
             cut.accumulate, row_before(rows_of, shard, cut.virtual_shards));
    }
  }
  for (int shard = 0; shard < cut.virtual_shards; ++shard) {
    plan.statistic_parts += non_empty(rows_of(shard), cut.accumulate);
  }
  return plan;
}

std::vector<std::int64_t> batch_sizes(const StepCut& cut, const data::EpochOrder& order, int rank) {
  std::set<std::int64_t> sizes;
  for (std::int64_t step = 0; step < order.steps(); ++step) {
    for (const MicroBatch& micro : plan_step(cut, order, step, rank).micro_batches) {
      if (!micro.sample_ids.empty()) {
        sizes.insert(static_cast<std::int64_t>(micro.sample_ids.size()));
      }
    }
  }
  return {sizes.begin(), sizes.end()};
}

}  // namespace coxswain::train
