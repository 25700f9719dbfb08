#include "operator/job/ranks.h"

#include <fmt/format.h>

#include <charconv>

namespace coxswain::job {

namespace {

constexpr int kMaxRank = 4095;

// Takes a number off the front of `text`; -1: there is none in range.
int take_number(std::string_view& text) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0 || value > kMaxRank) return -1;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

}  // namespace

std::set<int> parse_ranks(std::string_view text) {
  std::set<int> ranks;
  while (!text.empty()) {
    const int first = take_number(text);
    int last = first;
    if (first >= 0 && text.starts_with('-')) {
      text.remove_prefix(1);
      last = take_number(text);
    }
    if (first < 0 || last < first) return {};
    for (int rank = first; rank <= last; ++rank) ranks.insert(ranks.end(), rank);
    if (!text.empty() && text.front() != ',') return {};
    if (!text.empty()) text.remove_prefix(1);
  }
  return ranks;
}

std::string to_text(const std::set<int>& ranks) {
  std::string text;
  for (auto first = ranks.begin(); first != ranks.end();) {
    auto last = first;
    for (auto next = std::next(last); next != ranks.end() && *next == *last + 1; ++next)
      last = next;
    text += fmt::format("{}{}", text.empty() ? "" : ",", *first);
    if (last != first) text += fmt::format("-{}", *last);
    first = std::next(last);
  }
  return text;
}

}  // namespace coxswain::job
