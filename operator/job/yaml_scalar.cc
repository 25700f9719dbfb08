#include "operator/job/yaml_scalar.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

namespace coxswain::job {

namespace {

template <class T>
std::optional<T> number(std::string_view text, int base = 10) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> floating(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    return std::nullopt;
  return value;
}

constexpr auto kTrue = std::to_array<std::string_view>(
    {"true", "True", "TRUE", "y", "Y", "yes", "Yes", "YES", "on", "On", "ON"});
constexpr auto kFalse = std::to_array<std::string_view>(
    {"false", "False", "FALSE", "n", "N", "no", "No", "NO", "off", "Off", "OFF"});

template <std::size_t N>
bool is_among(const std::array<std::string_view, N>& words, std::string_view text) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

bool is_not_finite(std::string_view text) {
  if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
  return text == ".inf" || text == ".Inf" || text == ".INF" || text == ".nan" || text == ".NaN" ||
         text == ".NAN";
}

}  // namespace

Json plain_scalar(std::string_view text) {
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL")
    return nullptr;
  if (is_among(kTrue, text)) return true;
  if (is_among(kFalse, text)) return false;
  if (is_not_finite(text)) return std::numeric_limits<double>::quiet_NaN();
  const std::string_view digits = text.front() == '+' ? text.substr(1) : text;
  if (const auto value = number<std::int64_t>(digits)) return *value;
  if (const auto value = number<std::uint64_t>(digits)) return *value;
  if (text.starts_with("0x"))
    if (const auto value = number<std::int64_t>(text.substr(2), 16)) return *value;
  const bool numeric = text.find_first_not_of("+-.0123456789eE") == std::string_view::npos;
  if (const auto value = floating(digits); value && numeric) return *value;
  return text;
}

}  // namespace coxswain::job
