#include "operator/job/quantity.h"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace coxswain::job {

namespace {

using Suffix = std::pair<std::string_view, double>;

constexpr std::array<Suffix, 16> kSuffixes{{
    {"", 1},
    {"n", 1e-9},
    {"u", 1e-6},
    {"m", 1e-3},
    {"k", 1e3},
    {"M", 1e6},
    {"G", 1e9},
    {"T", 1e12},
    {"P", 1e15},
    {"E", 1e18},
    {"Ki", 1024.0},
    {"Mi", 1048576.0},
    {"Gi", 1073741824.0},
    {"Ti", 1099511627776.0},
    {"Pi", 1125899906842624.0},
    {"Ei", 1152921504606846976.0},
}};

constexpr double kLargest = 9223372036854775807.0;  // what the API server can hold
constexpr std::size_t kMaxDigits = 32;

}  // namespace

std::optional<double> parse_quantity(std::string_view text) {
  if (text.size() > kMaxDigits) return std::nullopt;
  const char* const end = text.data() + text.size();
  double number = 0;
  // Plain digits first, so that the E of "1E" is no exponent; then what an exponent leaves.
  for (const auto format : {std::chars_format::fixed, std::chars_format::scientific}) {
    const auto [rest, error] = std::from_chars(text.data(), end, number, format);
    if (error != std::errc()) continue;
    const std::string_view suffix(rest, static_cast<std::size_t>(end - rest));
    for (const auto& [name, factor] : kSuffixes) {
      const bool mixed = format == std::chars_format::scientific && !suffix.empty();
      if (name == suffix && !mixed && number >= 0 && number * factor <= kLargest)
        return number * factor;
    }
  }
  return std::nullopt;
}

std::optional<double> quantity_of(const Json& amount) {
  return parse_quantity(amount.is_string() ? amount.get<std::string>() : amount.dump());
}

}  // namespace coxswain::job
