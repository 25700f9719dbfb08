#include "operator/job/status.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "operator/job/json_fields.h"
#include "trainer/contract/rfc3339.h"

namespace coxswain::job {

namespace {

// The API server takes a CamelCase word; what a pod or a program said may be anything.
std::string as_reason(const std::string& text) {
  const auto fits = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
  const bool word = !text.empty() && text.size() <= 100 &&
                    std::isalpha(static_cast<unsigned char>(text.front())) &&
                    std::all_of(text.begin(), text.end(), fits);
  return word ? text : "Other";
}

constexpr int kMaxRank = 4095;

// Takes a number off the front of `text`; -1: there is none in range.
int take_number(std::string_view& text) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0 || value > kMaxRank) return -1;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

// Far above what the operator ever counts to, and low enough that counts can be added up.
constexpr std::int64_t kMostCount = 500'000'000;

// Each takes a value that fits; of another the target stays as it was.
void take(const Json& value, const About& about, int& target) {
  if (!value.is_number_integer()) return;
  const auto number = value.get<std::int64_t>();
  if (number >= about.range.min && number <= std::min(about.range.max, kMostCount))
    target = static_cast<int>(number);
}

void take(const Json& value, const About&, std::int64_t& target) {
  if (value.is_number_integer()) target = value.get<std::int64_t>();
}

void take(const Json& value, const About&, double& target) {
  if (value.is_number()) target = value.get<double>();
}

void take(const Json& value, const About&, std::string& target) {
  if (value.is_string()) target = value.get<std::string>();
}

void take(const Json& value, const About& about, bool& target) {
  target = about.as_word ? value == "True" : value == true;
}

template <class E>
  requires std::is_enum_v<E>
void take(const Json& value, const About&, E& target) {
  if (value.is_string()) target = value_of<E>(value.get<std::string>()).value_or(target);
}

void take(const Json& value, const About&, Time& target) {
  if (value.is_string()) target = parse_rfc3339(value.get<std::string>()).value_or(target);
}

void take(const Json& value, const About&, std::optional<Time>& target) {
  if (value.is_string()) target = parse_rfc3339(value.get<std::string>());
}

void take(const Json& value, const About&, std::optional<double>& target) {
  if (value.is_number()) target = value.get<double>();
}

void take(const Json& value, const About&, std::optional<int>& target) {
  if (value.is_number_integer()) target = static_cast<int>(value.get<std::int64_t>());
}

void take(const Json& value, const About&, std::vector<std::string>& target) {
  if (!value.is_array()) return;
  for (const Json& item : value)
    if (item.is_string()) target.push_back(item.get<std::string>());
}

template <class T, class Table>
void read_fields(const Json& json, const Table& table, T& target);

template <class T, class Table>
void read_object(const Json& json, const Table& table, T& target) {
  if (json.is_object()) read_fields(json, table, target);
}

template <class T, class Table>
void read_object(const Json& json, const Table& table, std::optional<T>& target) {
  if (json.is_object() && !json.empty()) read_fields(json, table, target.emplace());
}

template <class T, class Table>
void read_object(const Json& json, const Table& table, std::vector<T>& target) {
  if (!json.is_array()) return;
  for (const Json& item : json)
    if (item.is_object()) read_fields(item, table, target.emplace_back());
}

template <class T, class Table>
void read_object(const Json& json, const Table& table, std::map<Role, T>& target) {
  if (!json.is_object()) return;
  for (const auto& [role, text] : words_of(Role{}))
    if (const auto found = json.find(std::string(text)); found != json.end())
      read_object(*found, table, target[role]);
}

template <class Owner, class Member>
void read_row(const Json& value, const Field<Owner, Member>& row, Owner& owner) {
  take(value, row.about, owner.*row.member);
}

template <class Owner, class Member, class Table>
void read_row(const Json& value, const Object<Owner, Member, Table>& row, Owner& owner) {
  read_object(value, row.fields, owner.*row.member);
}

template <class Owner, class Value>
void read_row(const Json&, const Column<Owner, Value>&, Owner&) {}

template <class T, class Table>
void read_fields(const Json& json, const Table& table, T& target) {
  for_each_row(table, [&](const auto& row) {
    if (const auto found = json.find(row.key); found != json.end()) read_row(*found, row, target);
  });
}

}  // namespace

const Condition* find_condition(const Status& status, std::string_view type) {
  const auto found = std::find_if(status.conditions.begin(), status.conditions.end(),
                                  [&](const Condition& c) { return c.type == type; });
  return found == status.conditions.end() ? nullptr : &*found;
}

bool is_true(const Status& status, std::string_view type) {
  const Condition* found = find_condition(status, type);
  return found && found->status;
}

bool is_false(const Status& status, std::string_view type) {
  const Condition* found = find_condition(status, type);
  return found && !found->status;
}

void set_condition(Status& status, std::string_view type, const Finding& finding,
                   const Stamp& stamp) {
  auto& conditions = status.conditions;
  auto found = std::find_if(conditions.begin(), conditions.end(),
                            [&](const Condition& c) { return c.type == type; });
  if (found == conditions.end()) {
    Condition fresh;
    fresh.type = std::string(type);
    fresh.status = !finding.status;
    found = conditions.insert(found, std::move(fresh));
  }
  if (found->status != finding.status) found->last_transition_time = stamp.time;
  found->status = finding.status;
  found->reason = as_reason(finding.reason);
  found->message = finding.message;
  found->observed_generation = stamp.generation;
}

void clear_condition(Status& status, std::string_view type, const std::string& reason,
                     const Stamp& stamp) {
  if (is_true(status, type)) set_condition(status, type, {false, reason, ""}, stamp);
}

void keep_transition_times(const Status& stored, Status& status) {
  for (Condition& condition : status.conditions) {
    const Condition* old = find_condition(stored, condition.type);
    if (old && old->status == condition.status)
      condition.last_transition_time = old->last_transition_time;
  }
}

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

Json to_json(const Status& status) { return write_fields(status, kStatusFields); }

Status read_status(const Json& json) {
  Status status;
  read_object(json, kStatusFields, status);
  return status;
}

}  // namespace coxswain::job
