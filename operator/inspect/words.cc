#include "operator/inspect/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "trainer/contract/rfc3339.h"

namespace coxswain::inspect {

std::string grouped(std::int64_t number) {
  std::string text = fmt::format("{}", number);
  const std::ptrdiff_t first = number < 0 ? 1 : 0;
  for (std::ptrdiff_t at = std::ssize(text) - 3; at > first; at -= 3)
    text.insert(static_cast<std::size_t>(at), ",");
  return text;
}

std::string counted(std::int64_t count, const std::string& noun) {
  return fmt::format("{} {}{}", grouped(count), noun, count == 1 ? "" : "s");
}

std::string duration(double seconds) {
  if (!std::isfinite(seconds)) return "unknown";
  if (seconds < 10 && seconds != std::floor(seconds)) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::int64_t>(std::clamp(std::round(seconds), 0.0, 1e15));
  struct Unit {
    std::int64_t seconds;
    const char* name;
  };
  constexpr std::array<Unit, 4> kUnits{{{86400, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}}};
  for (std::size_t i = 0; i + 1 < kUnits.size(); ++i) {
    const Unit& unit = kUnits[i];
    if (whole < unit.seconds) continue;
    const std::int64_t rest = whole % unit.seconds / kUnits[i + 1].seconds;
    std::string text = fmt::format("{} {}", grouped(whole / unit.seconds), unit.name);
    if (rest > 0) text += fmt::format(" {} {}", rest, kUnits[i + 1].name);
    return text;
  }
  return fmt::format("{} s", whole);
}

std::string bytes_text(std::int64_t bytes) {
  constexpr std::array<const char*, 5> kUnits{"bytes", "kB", "MB", "GB", "TB"};
  double size = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; size >= 1000 && unit + 1 < kUnits.size(); ++unit) size /= 1000;
  return unit == 0 ? counted(bytes, "byte") : fmt::format("{:.1f} {}", size, kUnits[unit]);
}

std::string clock_text(job::Time time) {
  std::string text = to_rfc3339(time);  // 2026-01-31T12:00:01Z
  if (text.size() != 20) return text;
  text[10] = ' ';
  return text.substr(0, 19) + " UTC";
}

}  // namespace coxswain::inspect
