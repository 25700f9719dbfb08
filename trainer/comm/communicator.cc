#include "trainer/comm/communicator.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/tensor/host_span.h"

namespace coxswain::comm {

PeerLost::PeerLost(int rank, double silent_for_seconds, const std::string& doing)
    : Error(ExitCode::kPeerLost,
            silent_for_seconds > 0
                ? fmt::format("[comm] rank {} has been silent for {:.1f} s, {}: its process died "
                              "or is stopped, or its node is unreachable",
                              rank, silent_for_seconds, doing)
                : fmt::format("[comm] rank {} has closed its connection, {}: its process died",
                              rank, doing)),
      rank_(rank),
      silent_for_seconds_(silent_for_seconds) {}

void Communicator::all_gather(const tensor::Slice& own, const tensor::Slice& all) {
  const std::span<float> from = tensor::host_span(own);
  const std::span<float> to = tensor::host_span(all);
  std::ranges::fill(to, 0.F);
  std::ranges::copy(from, to.begin() + std::ssize(from) * rank());
  wait(all_reduce_sum(in_rank_order(size()), {.parts = {all}}));
}

void check_reduction(const ReductionPlan& plan, const Reduction& reduction, int rank, int size) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ExitCode::kInternal,
                fmt::format("[comm] all-reduce refused on rank {} of {}: {}", rank, size, what));
  };
  if (static_cast<int>(plan.parts_of_rank.size()) != size) {
    refuse(fmt::format("its plan is for {} ranks", plan.parts_of_rank.size()));
  }
  if (static_cast<int>(plan.adds.size()) != plan.total_parts() - 1) {
    refuse(fmt::format("its plan has {} additions for {} parts", plan.adds.size(),
                       plan.total_parts()));
  }
  const int expected = plan.parts_of_rank[static_cast<std::size_t>(rank)];
  if (expected < 1 || static_cast<int>(reduction.parts.size()) != expected) {
    refuse(fmt::format("{} parts given, its plan has {}", reduction.parts.size(), expected));
  }
  for (const auto& part : reduction.parts) {
    if (part.size() != reduction.parts[0].size()) refuse("its parts differ in length");
  }
  if (reduction.offset < 0) refuse(fmt::format("its offset is {}", reduction.offset));
  if (reduction.codec == nullptr) return;
  if (plan.total_parts() != size) refuse("a codec is for one part a rank");
  if (reduction.offset % kOwnerBlock != 0) refuse("a codec is for whole blocks");
}

}  // namespace coxswain::comm
