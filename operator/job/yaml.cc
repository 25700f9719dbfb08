#include "operator/job/yaml.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

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

constexpr auto kWords =
    std::to_array<std::string_view>({"true", "false", "yes", "no", "on", "off", "null", "y", "n"});

// Words that no reader takes for a number, a date or a flag, or for anything but a word.
bool is_plain(const std::string& text) {
  const auto letter = [](unsigned char c) { return std::isalpha(c) || c == '/' || c == '_'; };
  const auto fits = [](unsigned char c) {
    return std::isalnum(c) ||
           std::string_view("/_.-:").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (text.empty() || !letter(static_cast<unsigned char>(text.front())) || text.back() == ':')
    return false;
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::all_of(text.begin(), text.end(), fits) &&
         std::find(kWords.begin(), kWords.end(), lower) == kWords.end();
}

// Lines that a literal block keeps as they are.
bool is_block(const std::string& text) {
  const auto fits = [](unsigned char c) { return c == '\n' || c >= 0x20; };
  return text.find('\n') < text.size() - 1 && text.front() != ' ' && text.front() != '\n' &&
         !text.ends_with("\n\n") && std::all_of(text.begin(), text.end(), fits);
}

std::string quoted(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string word(const std::string& text) { return is_plain(text) ? text : quoted(text); }

std::string block(const std::string& text, std::size_t indent) {
  std::string result = text.back() == '\n' ? "|\n" : "|-\n";
  std::size_t start = 0;
  while (start < text.size()) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    if (end > start) result.append(indent, ' ').append(text, start, end - start);
    result += '\n';
    start = end + 1;
  }
  return result;
}

void append(const Json& value, std::size_t indent, std::string& out);

// What follows "key:" or "-".
void append_value(const Json& value, std::size_t indent, std::string& out) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    out += ' ' + (is_block(text) ? block(text, indent + 2) : word(text) + '\n');
  } else if (!value.is_structured() || value.empty()) {
    out += ' ' + value.dump() + '\n';
  } else {
    out += '\n';
    append(value, value.is_array() ? indent : indent + 2, out);
  }
}

void append(const Json& value, std::size_t indent, std::string& out) {
  if (value.is_array()) {
    for (const Json& element : value) {
      std::string text;
      const bool nested = element.is_structured() && !element.empty();
      if (nested) append(element, indent + 2, text);
      // The first line stands beside the dash.
      if (nested) text.replace(0, indent + 2, " ");
      if (!nested) append_value(element, indent, text);
      out.append(indent, ' ').append("-").append(text);
    }
  } else if (value.is_object()) {
    for (const auto& [key, member] : value.items()) {
      out.append(indent, ' ').append(word(key)).append(":");
      append_value(member, indent, out);
    }
  }
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

std::string to_yaml(const Json& value) {
  std::string text;
  if (value.is_structured() && !value.empty()) {
    append(value, 0, text);
    return text;
  }
  append_value(value, 0, text);
  return text.substr(1);
}

}  // namespace coxswain::job
