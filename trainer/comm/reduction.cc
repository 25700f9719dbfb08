#include "trainer/comm/reduction.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "trainer/contract/error.h"

namespace coxswain::comm {

namespace {

void check_shards(int num_shards, int world_size) {
  if (num_shards >= 1 && std::has_single_bit(static_cast<unsigned>(num_shards)) &&
      world_size >= 1 && world_size <= num_shards) {
    return;
  }
  throw Error(ExitCode::kBadInput,
              fmt::format("[comm] {} ranks can't share {} shards: the number of shards must be a "
                          "power of two and at least the number of ranks",
                          world_size, num_shards));
}

// Adds up the parts that cover the subtree over `range`, left before right. Returns the part that
// holds the sum. `next` is the part that starts where the range starts; it moves past the range.
int add_subtree(const std::vector<ShardRange>& parts, ShardRange range, std::size_t& next,
                std::vector<ReductionPlan::Add>& adds) {
  if (parts[next] == range) return static_cast<int>(next++);
  const int middle = (range.first + range.last) / 2;
  const int left = add_subtree(parts, {range.first, middle}, next, adds);
  const int right = add_subtree(parts, {middle, range.last}, next, adds);
  adds.push_back({left, right});
  return left;
}

}  // namespace

int ReductionPlan::total_parts() const {
  return first_part(static_cast<int>(parts_of_rank.size()));
}

int ReductionPlan::first_part(int rank) const {
  return std::accumulate(parts_of_rank.begin(), parts_of_rank.begin() + rank, 0);
}

ReductionPlan in_rank_order(int world_size) {
  ReductionPlan plan;
  plan.parts_of_rank.assign(static_cast<std::size_t>(world_size), 1);
  for (int rank = 1; rank < world_size; ++rank) plan.adds.push_back({0, rank});
  return plan;
}

ReductionPlan in_pairs(int world_size) {
  ReductionPlan plan;
  plan.parts_of_rank.assign(static_cast<std::size_t>(world_size), 1);
  for (int step = 1; step < world_size; step *= 2)
    for (int rank = 0; rank + step < world_size; rank += 2 * step)
      plan.adds.push_back({rank, rank + step});
  return plan;
}

MachinePlan by_machine(const ReductionPlan& plan, const std::vector<int>& machine_of_rank) {
  MachinePlan result;
  result.machines.resize(
      static_cast<std::size_t>(*std::max_element(machine_of_rank.begin(), machine_of_rank.end())) +
      1);
  std::vector<int> machine_of_part;
  for (std::size_t rank = 0; rank < machine_of_rank.size(); ++rank)
    machine_of_part.insert(machine_of_part.end(),
                           static_cast<std::size_t>(plan.parts_of_rank[rank]),
                           machine_of_rank[rank]);
  enum State { kOwn, kMixed, kGone };
  std::vector<State> states(machine_of_part.size(), kOwn);
  for (const ReductionPlan::Add& add : plan.adds) {
    const auto into = static_cast<std::size_t>(add.into);
    const auto from = static_cast<std::size_t>(add.from);
    const bool is_own = states[into] == kOwn && states[from] == kOwn &&
                        machine_of_part[into] == machine_of_part[from];
    auto& adds = is_own ? result.machines[static_cast<std::size_t>(machine_of_part[into])].adds
                        : result.adds;
    adds.push_back(add);
    if (is_own) states[from] = kGone;
    if (!is_own) states[into] = states[from] = kMixed;
  }
  for (std::size_t part = 0; part < states.size(); ++part)
    if (states[part] != kGone)
      result.machines[static_cast<std::size_t>(machine_of_part[part])].left.push_back(
          static_cast<int>(part));
  return result;
}

ReductionPlan halving_tree(int num_shards, int world_size) {
  check_shards(num_shards, world_size);
  ReductionPlan plan;
  std::vector<ShardRange> all_parts;
  for (int rank = 0; rank < world_size; ++rank) {
    const auto parts = parts_of(num_shards, world_size, rank);
    plan.parts_of_rank.push_back(static_cast<int>(parts.size()));
    all_parts.insert(all_parts.end(), parts.begin(), parts.end());
  }
  std::size_t next = 0;
  add_subtree(all_parts, {0, num_shards}, next, plan.adds);
  return plan;
}

std::vector<ShardRange> parts_of(int num_shards, int world_size, int rank) {
  check_shards(num_shards, world_size);
  const int last = (rank + 1) * num_shards / world_size;
  std::vector<ShardRange> parts;
  for (int first = rank * num_shards / world_size; first < last;) {
    int length = 1;
    while (first % (2 * length) == 0 && first + 2 * length <= last) length *= 2;
    parts.push_back({first, first + length});
    first += length;
  }
  return parts;
}

}  // namespace coxswain::comm
