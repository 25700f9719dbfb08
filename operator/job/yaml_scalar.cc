#include "operator/job/yaml_scalar.h"

#include <charconv>
#include <cmath>
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

}  // namespace

Json plain_scalar(std::string_view text) {
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL")
    return nullptr;
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  const std::string_view digits = text.front() == '+' ? text.substr(1) : text;
  if (const auto value = number<std::int64_t>(digits)) return *value;
  if (const auto value = number<std::uint64_t>(digits)) return *value;
  if (text.starts_with("0x"))
    if (const auto value = number<std::int64_t>(text.substr(2), 16)) return *value;
  if (text.starts_with("0o"))
    if (const auto value = number<std::int64_t>(text.substr(2), 8)) return *value;
  const bool numeric = text.find_first_not_of("+-.0123456789eE") == std::string_view::npos;
  if (const auto value = floating(digits); value && numeric) return *value;
  return text;
}

}  // namespace coxswain::job
