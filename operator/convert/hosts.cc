#include "operator/convert/hosts.h"

#include <algorithm>
#include <cctype>

namespace coxswain::convert {

namespace {

constexpr std::size_t kMostHosts = 4096;

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t cut = std::min(text.find_first_of(separators), text.size());
    if (const auto part = trimmed(text.substr(0, cut)); !part.empty()) parts.push_back(part);
    if (cut == text.size()) return parts;
    text.remove_prefix(cut + 1);
  }
}

bool is_host_name(std::string_view name) {
  return !name.empty() && name.front() != '-' &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return std::isalnum(c) || c == '.' || c == '-' || c == '_' || c == '@' || c == '[' ||
                  c == ']';
         });
}

bool add(std::vector<Host>& hosts, std::string_view name, int slots) {
  const auto known =
      std::find_if(hosts.begin(), hosts.end(), [&](const Host& host) { return host.name == name; });
  if (known != hosts.end()) {
    known->slots += slots;
    return known->slots <= 1024;
  }
  hosts.push_back({std::string(name), slots});
  return hosts.size() <= kMostHosts;
}

std::optional<int> slot_count(std::string_view text) {
  const auto slots = whole_number(text, 1);
  return slots && *slots <= 1024 ? slots : std::nullopt;
}

// "h:4" or "h"
bool add_entry(std::vector<Host>& hosts, std::string_view entry) {
  const std::size_t colon = std::min(entry.rfind(':'), entry.size());
  const auto slots = colon == entry.size() ? std::optional(1) : slot_count(entry.substr(colon + 1));
  return slots && is_host_name(entry.substr(0, colon)) &&
         add(hosts, entry.substr(0, colon), *slots);
}

bool add_line(std::vector<Host>& hosts, std::string_view line) {
  const auto words = split(line.substr(0, line.find('#')), " \t");
  if (words.empty()) return true;
  std::optional<int> slots;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    const std::string_view value =
        equals == std::string_view::npos ? words[i] : words[i].substr(equals + 1);
    const std::string_view key = words[i].substr(0, std::min(equals, words[i].size()));
    if (key == "max-slots" || key == "max_slots") continue;
    if (equals != std::string_view::npos && key != "slots") return false;
    if (!(slots = slot_count(value))) return false;
  }
  if (!slots) return add_entry(hosts, words[0]);
  return is_host_name(words[0]) && add(hosts, words[0], *slots);
}

}  // namespace

std::optional<std::vector<Host>> read_host_list(std::string_view text) {
  std::vector<Host> hosts;
  for (const std::string_view entry : split(text, ","))
    if (!add_entry(hosts, entry)) return std::nullopt;
  if (hosts.empty()) return std::nullopt;
  return hosts;
}

std::optional<std::vector<Host>> read_hostfile(std::string_view text) {
  std::vector<Host> hosts;
  for (const std::string_view line : split(text, "\n"))
    if (!add_line(hosts, line)) return std::nullopt;
  if (hosts.empty()) return std::nullopt;
  return hosts;
}

Placement place_ranks(std::optional<int> ranks, const std::vector<Host>& hosts) {
  if (hosts.empty()) return {.workers = ranks.value_or(1)};
  int all = 0;
  for (const Host& host : hosts) all += host.slots;
  int left = ranks.value_or(all);
  const Placement apart{.workers = left, .slots = 1, .uneven = true};
  if (left > all) {  // more ranks than slots: shared out alike
    const int workers = static_cast<int>(hosts.size());
    if (left % workers != 0) return apart;
    return {.workers = workers, .slots = left / workers};
  }
  Placement placement{.workers = 0, .slots = hosts.front().slots};
  placement.slots = std::min(placement.slots, left);
  for (const Host& host : hosts) {
    if (left == 0) break;
    const int here = std::min(host.slots, left);
    if (here != placement.slots) return apart;
    ++placement.workers;
    left -= here;
  }
  return placement;
}

}  // namespace coxswain::convert
