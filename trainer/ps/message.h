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
  // A server to a worker.
  kBegun,    // all of its state is there
  kOutcome,  // the control segment after a step
  kWeights,  // a piece, after a step
  kSlots,    // a piece of the slot `part`
  // A server to a server.
  kReady,     // part 1: its sums of the step are finite
  kDecision,  // part 1: the step updates
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

}  // namespace coxswain::ps
