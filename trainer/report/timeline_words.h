#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// What a timeline says, in words. PURE.
namespace coxswain::report {

// Value. One span of a timeline's file.
struct TimelineSpan {
  std::string name;
  std::string part;  // "forward"
  double start = 0;  // seconds
  double seconds = 0;
  int rank = 0;
  int thread = 0;
  std::int64_t step = 0;
};

// Of Chrome's trace events, as report.timeline writes them; nothing for other text.
std::optional<std::vector<TimelineSpan>> parse_timeline(std::string_view text);

// What a step is made of, its slowest layers, and which rank the others wait for.
std::string describe_timeline(const std::vector<TimelineSpan>& spans);

}  // namespace coxswain::report
