#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/ps/message.h"
#include "trainer/ps/step_set.h"

// PURE: what of asynchronous training outlives server 0, beside its weights and slots.
namespace coxswain::ps {

// Value. What a Coordinator can't learn again of those who call.
struct Minutes {
  int fences = 0;
  std::int64_t fence = 0;  // no step from there on is leased
  std::int64_t next = 0;   // was never leased
  StepSet done;
  bool is_cut = false;
  bool stop = false;
  std::optional<bool> end;  // whether it was saved
  Totals totals;
  std::string note;
  bool operator==(const Minutes&) const = default;
};

using Bytes = std::vector<std::byte>;
Bytes encode(const Minutes& minutes);
Bytes encode(const StepSet& steps);
// Throw Error(71) for bytes that are none. The second takes its own off the front.
Minutes decode_minutes(std::span<const std::byte> bytes);
StepSet decode_steps(std::span<const std::byte>& bytes);

inline constexpr std::int64_t kMaxMinutes = 2 * kMaxNote;  // bytes

}  // namespace coxswain::ps
