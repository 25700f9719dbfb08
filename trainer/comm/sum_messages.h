#pragma once

#include <memory>
#include <vector>

#include "trainer/comm/exchange.h"

namespace coxswain::comm {

// Value. Of floats, from the start of a segment.
struct Run {
  std::int64_t begin = 0;
  std::int64_t length = 0;
};

// The blocks of a segment that `owner` sums; neighbours are one run.
std::vector<Run> runs_of(const HostReduction& segment, int owner, int world_size);
std::int64_t total(const std::vector<Run>& runs);

inline std::span<std::byte> bytes_of(float* data, std::int64_t count) {
  return std::as_writable_bytes(std::span(data, static_cast<std::size_t>(count)));
}

// View. One rank's side of the sum of one segment.
struct SumSide {
  const ReductionPlan& plan;
  const HostReduction& segment;
  int rank = 0;
  int size = 1;
  Staging& staging;

  std::vector<Run> runs_of_rank(int owner) const { return runs_of(segment, owner, size); }
};

// Resource. What the messages of a sum are made of, and what their bytes mean. No pieces: there is
// nothing to be said.
class SumMessages {
 public:
  virtual ~SumMessages() = default;

  // Of this rank, written for their owner: once for each.
  virtual Pieces parts_for(int owner) = 0;
  // Of a peer, of the blocks that this rank sums.
  virtual Pieces room_for_parts(int peer) = 0;
  // All parts have come: the sums in their place, and as they go to all others.
  virtual Pieces add_parts() = 0;
  // Of an owner that has taken this rank's parts.
  virtual Pieces room_for_sums(int owner) = 0;
  // They have come.
  virtual void take_sums(int owner) = 0;
};

// Floats as they lie in memory.
std::unique_ptr<SumMessages> make_plain_messages(const SumSide& side);
// As the segment's codec writes them. The owner adds its own part exactly; what the codec leaves
// out of a sum is the owner's.
std::unique_ptr<SumMessages> make_coded_messages(const SumSide& side);

}  // namespace coxswain::comm
