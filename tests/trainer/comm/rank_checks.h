#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/comm/communicator.h"

// What is checked of every communicator, over threads and over MPI. All ranks of `communicator`
// call these together. A check returns how many values are wrong.
namespace coxswain::comm {

// Floats whose sum depends on its order, the same on every rank: those of part `part`.
std::vector<float> part_values(std::int64_t count, int part, std::uint64_t seed);

// The sum of all parts, element by element, by the plan and nothing else.
std::vector<float> plain_sum(const ReductionPlan& plan, std::int64_t count, std::uint64_t seed);

// Sums a flat buffer in buckets of the given length, all started before the first is waited for.
std::vector<float> sum_in_buckets(Communicator& communicator, const ReductionPlan& plan,
                                  std::int64_t count, std::int64_t bucket, std::uint64_t seed);

int wrong_sums(Communicator& communicator, const ReductionPlan& plan, std::uint64_t seed);
int wrong_broadcasts(Communicator& communicator);

}  // namespace coxswain::comm
