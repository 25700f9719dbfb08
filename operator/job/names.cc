#include "operator/job/validation.h"

#include <algorithm>
#include <cctype>

namespace coxswain::job {

namespace {

bool is_lower_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

bool is_letter_or_digit(char c) { return is_lower_or_digit(c) || (c >= 'A' && c <= 'Z'); }

bool has_sound_ends(std::string_view text) {
  return !text.empty() && is_letter_or_digit(text.front()) && is_letter_or_digit(text.back());
}

}  // namespace

bool is_dns_label(std::string_view text) {
  return text.size() <= 63 && has_sound_ends(text) &&
         std::ranges::all_of(text, [](char c) { return is_lower_or_digit(c) || c == '-'; });
}

bool is_dns_subdomain(std::string_view text) {
  if (text.size() > 253) return false;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find('.', start), text.size());
    const std::string_view part = text.substr(start, end - start);
    if (!has_sound_ends(part) ||
        !std::ranges::all_of(part, [](char c) { return is_lower_or_digit(c) || c == '-'; }))
      return false;
    start = end + 1;
  }
  return true;
}

bool is_label_value(std::string_view text) {
  const auto fits = [](char c) {
    return is_letter_or_digit(c) || c == '-' || c == '_' || c == '.';
  };
  return text.empty() ||
         (text.size() <= 63 && has_sound_ends(text) && std::ranges::all_of(text, fits));
}

bool is_qualified_name(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash != std::string_view::npos && !is_dns_subdomain(text.substr(0, slash))) return false;
  const std::string_view name = slash == std::string_view::npos ? text : text.substr(slash + 1);
  return !name.empty() && is_label_value(name);
}

}  // namespace coxswain::job
