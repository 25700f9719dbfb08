#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "trainer/contract/worker/progress.h"

namespace coxswain::contract {

inline constexpr std::size_t kMaxTerminationMessageBytes = 2048;

// Value. How a worker or one of its ranks ended: rank-<r>.json, and the container's termination
// message, from which the operator takes the cause (docs/contract.md, "Causes").
struct TerminationMessage {
  int exit_code = 0;    // an ExitCode, or 128 + signal
  int rank = -1;        // -1: no rank, the worker or server itself
  std::string phase;    // where it was: "Start", "Data", "AllReduce", "Checkpoint"...
  std::string reason;   // one word: "PeerLost", "NotFinite", "Signal"...; empty on success
  std::string message;  // one line for people
  std::optional<std::int64_t> step;
  std::optional<Progress> progress;
  std::optional<CheckpointProgress> checkpoint;
  bool operator==(const TerminationMessage&) const = default;
};

// One line of JSON, at most kMaxTerminationMessageBytes: `message` is shortened first, then
// progress goes.
std::string to_json(const TerminationMessage& message);

// Nothing for text over the limit, that is not JSON, without exitCode, or with a field of a wrong
// type. Never throws.
std::optional<TerminationMessage> parse_termination_message(std::string_view json);

}  // namespace coxswain::contract
