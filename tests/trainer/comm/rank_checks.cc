#include "tests/trainer/comm/rank_checks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

namespace coxswain::comm {

namespace {

int differing(std::span<const float> a, std::span<const float> b) {
  int count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    count += std::memcmp(&a[i], &b[i], sizeof(float)) == 0 ? 0 : 1;
  }
  return count;
}

// The parts of this rank, as the plan numbers them.
std::vector<std::vector<float>> own_parts(const Communicator& communicator,
                                          const ReductionPlan& plan, std::int64_t count,
                                          std::uint64_t seed) {
  std::vector<std::vector<float>> parts;
  const int first = plan.first_part(communicator.rank());
  for (int part = first; part < plan.first_part(communicator.rank() + 1); ++part) {
    parts.push_back(part_values(count, part, seed));
  }
  return parts;
}

}  // namespace

std::vector<float> part_values(std::int64_t count, int part, std::uint64_t seed) {
  std::mt19937_64 random(seed * 1000 + static_cast<std::uint64_t>(part));
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    const auto bits = random();
    const float mantissa = static_cast<float>(bits & 0xFFFFFF) / 0x1p23F - 1.0F;
    value = std::ldexp(mantissa, static_cast<int>((bits >> 32) % 40) - 20);
  }
  return values;
}

std::vector<float> plain_sum(const ReductionPlan& plan, std::int64_t count, std::uint64_t seed) {
  std::vector<std::vector<float>> parts;
  for (int part = 0; part < plan.total_parts(); ++part) {
    parts.push_back(part_values(count, part, seed));
  }
  for (const auto& [into, from] : plan.adds) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      parts[static_cast<std::size_t>(into)][i] += parts[static_cast<std::size_t>(from)][i];
    }
  }
  return parts[0];
}

std::vector<float> sum_in_buckets(Communicator& communicator, const ReductionPlan& plan,
                                  std::int64_t count, std::int64_t bucket, std::uint64_t seed) {
  auto parts = own_parts(communicator, plan, count, seed);
  std::vector<Ticket> tickets;
  for (std::int64_t begin = 0; begin < count; begin += bucket) {
    const auto length = static_cast<std::size_t>(std::min(bucket, count - begin));
    Reduction reduction;
    reduction.offset = begin;
    for (auto& part : parts) {
      reduction.parts.push_back(std::span(part).subspan(static_cast<std::size_t>(begin), length));
    }
    tickets.push_back(communicator.all_reduce_sum(plan, std::move(reduction)));
  }
  for (const Ticket ticket : tickets) communicator.wait(ticket);
  return parts[0];
}

int wrong_sums(Communicator& communicator, const ReductionPlan& plan, std::uint64_t seed) {
  int wrong = 0;
  for (const std::int64_t count : {0, 1, 15, 16383, 16384, 16385, 100000}) {
    const std::vector<float> expected = plain_sum(plan, count, seed);
    for (const std::int64_t offset : {0, 16389, 1000003}) {
      auto parts = own_parts(communicator, plan, count, seed);
      Reduction reduction;
      reduction.offset = offset;
      for (auto& part : parts) reduction.parts.emplace_back(part);
      communicator.wait(communicator.all_reduce_sum(plan, std::move(reduction)));
      wrong += differing(parts[0], expected);
    }
  }
  return wrong;
}

int wrong_broadcasts(Communicator& communicator) {
  int wrong = 0;
  for (int root = 0; root < communicator.size(); ++root) {
    for (const std::size_t count : {0, 1, 1000, 3'000'001}) {
      std::vector<std::byte> bytes(count);
      const auto expected = [&](std::size_t i) { return static_cast<std::byte>(i * 7 + count); };
      if (communicator.rank() == root) {
        for (std::size_t i = 0; i < count; ++i) bytes[i] = expected(i);
      }
      communicator.broadcast(bytes, root);
      for (std::size_t i = 0; i < count; ++i) wrong += bytes[i] == expected(i) ? 0 : 1;
    }
  }
  return wrong;
}

}  // namespace coxswain::comm
