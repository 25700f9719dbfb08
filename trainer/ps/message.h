#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trainer/net/frame.h"
#include "trainer/optim/update_rule.h"
#include "trainer/tensor/parameter_layout.h"

// PURE: what the workers and servers of a job say to each other.
namespace coxswain::ps {

enum class Say : std::uint8_t {
  // Worker 0 to a server, before the first step of an attempt.
  kBeginning = 1,  // a Beginning
  kState,          // a piece of what the server shall hold; part 0: weights, then the slots
  // A worker to a server.
  kTerms,     // of worker 0: the rates of a step
  kPush,      // a part of a block of gradients
  kAgain,     // the connection is a new one, and the weights of the step are not here
  kAskSlots,  // of worker 0
  kPushed,    // async: all of the step is pushed: its Terms; none: it changes nothing; part: the
              // version of the weights that it was computed on
  kPull,      // async: for the weights; `step` comes back
  kAskLease,  // async, to server 0: for a step to compute
  kDone,      // async, to server 0: a StepSums; all servers have answered the step
  kCutNow,    // async, to server 0: no new step; part 1: since training is to stop
  kFence,     // async, of worker 0 to server 0: steps below `step` may be leased; a note
  kEnd,       // async, of worker 0 to server 0, and of that to all: part 1: saved, not finished
  // A server to a worker.
  kBegun,     // all of its state is there
  kOutcome,   // the control segment after a step
  kWeights,   // a piece, after a step; async: part: their version
  kSlots,     // a piece of the slot `part`
  kStanding,  // async: part 1: it has begun; of server 0: how many fences, the newest's note
  kLease,     // async: the step is this worker's; the Totals
  kHeld,      // async: no step before worker `part`, if it is another, has finished one
  kCut,       // async, to worker 0: all up to `step` are done, of the fence `part`; the Totals
  // A server to a server.
  kReady,     // part 1: its sums of the step are finite
  kDecision,  // part 1: the step updates
  // To the server that keeps a copy of what this one holds, after kBeginning, kAlso, kState.
  kSums,     // a block of a step's sums; async: of the gradients of the step that is made next
  kCommit,   // Terms; part 1: the step updates; async: `offset`: which one it is
  kMinutes,  // async, of server 0: Minutes
  // From that one.
  kHolds,    // the copy is as after so many steps
  kNoted,    // async: it has the Minutes
  kRestore,  // a Beginning: this is what you held; kAlso and kState follow
  // Both ways.
  kAlso,    // what it knows besides weights and slots; part 1: what the receiver knew
  kStatus,  // part 1: it holds a copy of yours
};

// Value. The label of a message, read.
struct Message {
  Say what = Say::kPush;
  std::int64_t step = 0;
  int part = 0;
  std::int64_t offset = 0;  // in the flat buffer, in floats
  std::int64_t bytes = 0;   // that follow
  bool operator==(const Message&) const = default;
};
net::Label label_of(const Message& message);
// Throws Error(71) for what no process of a job says.
Message message_of(const net::FrameHead& head);
inline std::int64_t floats_of(const Message& message) {
  return message.bytes / static_cast<std::int64_t>(sizeof(float));
}

// Value. What servers need to know before the first step of an attempt.
struct Beginning {
  tensor::ParameterLayout layout;  // without names and dims
  std::int64_t step = 0;           // that are done
  std::int64_t update_count = 0;
  bool operator==(const Beginning&) const = default;
};
using Numbers = std::vector<std::int64_t>;
Numbers encode(const Beginning& beginning);
// Throws Error(71) for bytes that are none.
Beginning decode_beginning(std::span<const std::byte> bytes);

inline constexpr std::int64_t kMaxBeginning = std::int64_t{1} << 20;  // bytes

// Rate, momentum, parts of statistics; the servers count the updates.
using Terms = std::array<float, 3>;
Terms encode(const optim::UpdateStep& step);
optim::UpdateStep decode_terms(std::span<const std::byte> bytes);  // of a Terms

// The version of a server's weights counts its updates, as far as a message has room for.
inline constexpr std::int64_t kVersions = std::int64_t{1} << 24;
inline int version_of(std::int64_t update_count) {
  return static_cast<int>(update_count % kVersions);
}
// Updates since then. None of weights that are newer: a server that came back has lost what it had
// not acknowledged.
std::int64_t updates_since(int version, std::int64_t update_count);

// Value. What a worker says of a step that it has computed.
struct StepSums {
  double samples = 0;
  double loss = 0;
  double correct = 0;
  double skipped = 0;  // 1: loss or gradients were not finite
  bool operator==(const StepSums&) const = default;
};

// Value. Over all workers' steps since the last fence.
struct Totals {
  std::int64_t steps = 0;
  std::int64_t skipped = 0;
  std::int64_t skipped_in_a_row = 0;  // since whenever
  std::int64_t most_staleness = 0;
  double staleness = 0;  // sum over the steps that were not skipped
  double samples = 0;    // of those
  double loss = 0;
  double correct = 0;
  bool operator==(const Totals&) const = default;
};

inline constexpr std::int64_t kMaxNote = std::int64_t{1} << 20;  // bytes

}  // namespace coxswain::ps
