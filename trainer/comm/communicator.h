#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trainer/comm/block_codec.h"
#include "trainer/comm/reduction.h"
#include "trainer/contract/error.h"
#include "trainer/tensor/slice.h"

namespace coxswain::comm {

// A peer died or fell silent; 0 seconds: its connection ended. The communicator may only be
// destroyed after it.
class PeerLost : public Error {
 public:
  PeerLost(int rank, double silent_for_seconds, const std::string& doing);
  int rank() const { return rank_; }
  double silent_for_seconds() const { return silent_for_seconds_; }

 private:
  int rank_;
  double silent_for_seconds_;
};

// Names a started all-reduce until it is waited for.
using Ticket = std::int64_t;

// View. A range of the flat buffer to be summed over all ranks: this rank's parts of it, as the
// plan says, all of one length. The sum goes into parts[0], the others are scratch. `offset` is the
// range's place in the flat buffer, in floats: it decides who sums what.
//
// With a codec, which outlives the sum, floats travel as it writes them: all ranks give one, each
// brings one part, and the range is of whole blocks.
struct Reduction {
  std::vector<tensor::Slice> parts;
  std::int64_t offset = 0;
  BlockCodec* codec = nullptr;
};

// Throws Error(kInternal) when the reduction does not fit the plan, or the plan the world.
void check_reduction(const ReductionPlan& plan, const Reduction& reduction, int rank, int size);

// The ranks of one attempt of one job. All ranks make the same calls in the same order. Made for
// one ReductionPlan (world size 1: the plan still says which local parts are added). Not
// thread-safe: one thread calls it. Every wait has a deadline and throws PeerLost naming who is
// missing.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Whose memory parts may lie in; those of another are refused.
  virtual bool reaches(tensor::Place place) const = 0;
  // Whether sums are made in the plan's order: what the same bits need.
  virtual bool fixed_order() const = 0;

  // Starts to sum; the parts belong to the communicator until wait(ticket) returns, or for a device
  // until it has done what was enqueued before that. Runs beside the caller.
  virtual Ticket all_reduce_sum(const ReductionPlan& plan, Reduction reduction) = 0;
  virtual void wait(Ticket ticket) = 0;

  // Every rank's `own` into `all`, in rank order. Waits for them; what lies on a device is enqueued
  // instead, whatever of the step is recorded. On the host a sum of what is zero but for each
  // rank's own place, which is exact in any order.
  virtual void all_gather(const tensor::Slice& own, const tensor::Slice& all);

  virtual void broadcast(std::span<std::byte> bytes, int root) = 0;
  virtual void barrier() = 0;

  // The orderly end, on all ranks: waits for them (with PeerLost as everywhere) and says goodbye.
  // Only the destructor may follow. Destroyed without it, the communicator drops its peers without
  // a word, as after PeerLost: the process then leaves with _exit, since MPI can't be closed by one
  // rank.
  virtual void finish() = 0;
};

// World size 1: adds the local parts as the plan says, at once.
std::unique_ptr<Communicator> make_solo_communicator();

}  // namespace coxswain::comm
