#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace coxswain {

// "2026-01-31T12:00:00Z"; with `decimals` of the second, at most 9, as many as that: ".123Z".
std::string to_rfc3339(std::chrono::system_clock::time_point time, int decimals = 0);

// Such a time, or one of another offset from UTC ("+01:00"), to the whole second before it. Nothing
// for other text and for days that no calendar has.
std::optional<std::chrono::sys_seconds> parse_rfc3339(std::string_view text);

}  // namespace coxswain
